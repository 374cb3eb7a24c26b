//! Devices and their names.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::{Error, Result};

/// The device of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Device {
    #[default]
    Cpu,
    /// A GPU, by its index in the list of adapters.
    Gpu(u8),
    /// No device: its tensors have no elements, only what describes them.
    Meta,
}

/// The GPU meant by a name without an index.
static CURRENT: AtomicU8 = AtomicU8::new(0);

/// Whether PyTorch's accelerator names refer to the GPU; disabled by `RGRAD_GPU_ALIASES=0`.
static ALIASES: LazyLock<bool> =
    LazyLock::new(|| cfg!(feature = "gpu") && std::env::var("RGRAD_GPU_ALIASES").map_or(true, |v| v != "0"));

impl Device {
    /// The device's type, as in `torch.device.type`.
    pub const fn kind(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Gpu(_) => "gpu",
            Device::Meta => "meta",
        }
    }

    /// The device index, if devices of this type are numbered.
    pub const fn index(self) -> Option<usize> {
        match self {
            Device::Cpu | Device::Meta => None,
            Device::Gpu(i) => Some(i as usize),
        }
    }

    /// Whether it works beside the host, with a policy of its own for what autocast makes of operations.
    pub const fn is_accelerator(self) -> bool {
        matches!(self, Device::Gpu(_))
    }

    /// Whether the host reads the elements of its tensors where they lie.
    #[inline(always)]
    pub const fn is_host_readable(self) -> bool {
        matches!(self, Device::Cpu)
    }

    /// Whether its 0-d tensors are numbers, and its indices are indices, to operations on every device.
    #[inline(always)]
    pub const fn lends_operands(self) -> bool {
        matches!(self, Device::Cpu)
    }

    /// Where the result of an operation lies whose operands lie on these devices: on the first that does not lend its
    /// operands to the others.
    #[inline]
    pub fn of_result(operands: impl IntoIterator<Item = Device>) -> Device {
        operands.into_iter().find(|d| !d.lends_operands()).unwrap_or_default()
    }

    /// The module name in PyTorch's tensor types for this device. A GPU of any vendor uses the name that scripts
    /// expect.
    pub const fn type_module(self) -> &'static str {
        match self {
            Device::Cpu => "torch.",
            Device::Gpu(_) => "torch.cuda.",
            Device::Meta => "torch.meta.",
        }
    }

    pub const fn is_gpu(self) -> bool {
        matches!(self, Device::Gpu(_))
    }

    /// The GPU meant by names without an index.
    pub fn current_gpu() -> Device {
        Device::Gpu(CURRENT.load(Ordering::Relaxed))
    }

    pub fn set_current_gpu(index: u8) {
        CURRENT.store(index, Ordering::Relaxed);
    }

    /// Parses `"cpu"`, `"cpu:0"`, `"gpu"`, `"gpu:1"`, and PyTorch's `"cuda"` and `"mps"` as names of the GPU. Whether
    /// the device exists is checked on first use.
    ///
    /// # Errors
    /// `RuntimeError` for a name that this build does not support.
    pub fn parse(name: &str) -> Result<Device> {
        if name.is_empty() {
            return Err(Error::Runtime("Device string must not be empty".into()));
        }
        let (kind, index) = match name.split_once(':') {
            Some((kind, index)) => (kind, Some(index)),
            None => (name, None),
        };
        if let Some(index) = index
            && (kind.is_empty()
                || index.is_empty()
                || index.len() > 1 && index.starts_with('0')
                || !index.bytes().all(|b| b.is_ascii_digit()))
        {
            return Err(Error::Runtime(format!("Invalid device string: '{name}'")));
        }
        match kind {
            "cpu" => Ok(Device::Cpu),
            "meta" => Ok(Device::Meta),
            "gpu" if cfg!(feature = "gpu") => Device::numbered(index, name),
            "cuda" | "mps" if *ALIASES => Device::numbered(index, name),
            "cuda" | "mps" | "gpu" | "wgpu" | "xpu" => {
                Err(Error::Runtime(format!("No device of type '{kind}' is available in this build of rgrad")))
            }
            _ => Err(Error::Runtime(format!(
                "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, \
                 lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: {kind}"
            ))),
        }
    }

    fn numbered(index: Option<&str>, name: &str) -> Result<Device> {
        match index.map(str::parse) {
            None => Ok(Device::current_gpu()),
            Some(Ok(i)) => Ok(Device::Gpu(i)),
            Some(Err(_)) => Err(Error::Runtime(format!("Invalid device string: '{name}'"))),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Gpu(i) => write!(f, "gpu:{i}"),
            Device::Meta => f.write_str("meta"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_a_device_and_a_device_its_name() {
        assert_eq!(Device::parse("cpu:0").unwrap(), Device::Cpu);
        assert!(Device::parse("gpu:").is_err() && Device::parse("gpu:300").is_err());
        assert!(
            Device::parse("").is_err() && Device::parse(":0").is_err() && Device::parse("cpu:01").is_err()
        );
        #[cfg(feature = "gpu")]
        assert_eq!(Device::parse("gpu:1").unwrap().to_string(), "gpu:1");
    }
}
