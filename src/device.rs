//! Where a tensor lives, and the names that users give to it.

use std::fmt;

use crate::error::{Error, Result};

/// The device of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Device {
    #[default]
    Cpu,
}

impl Device {
    /// The device's type, as in `torch.device.type`.
    pub const fn kind(self) -> &'static str {
        "cpu"
    }

    /// Parses `"cpu"` or `"cpu:0"`.
    ///
    /// # Errors
    /// `RuntimeError` for a string that names no device, or a device that this build cannot open.
    pub fn parse(name: &str) -> Result<Device> {
        let (kind, index) = match name.split_once(':') {
            Some((kind, index)) => (kind, Some(index)),
            None => (name, None),
        };
        if let Some(index) = index
            && (index.is_empty() || !index.bytes().all(|b| b.is_ascii_digit()))
        {
            return Err(Error::Runtime(format!("Invalid device string: '{name}'")));
        }
        match kind {
            "cpu" => Ok(Device::Cpu),
            "cuda" | "mps" | "gpu" | "wgpu" | "xpu" => Err(Error::Runtime(format!(
                "No device of type '{kind}' is available: this build of rgrad holds the CPU backend only"
            ))),
            _ => Err(Error::Runtime(format!(
                "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, \
                 lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: {kind}"
            ))),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}
