//! State on disk, shared between processes: compiled pipelines, and features to avoid.
//!
//! Files are stored in `RGRAD_CACHE_DIR`, by default in the folder `rgrad` of the user's cache directory; an empty
//! `RGRAD_CACHE_DIR` disables them. Their names include adapter, driver and version of this crate, so that a new
//! driver starts with an empty cache. A damaged file is treated as missing.
#![allow(unsafe_code)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::{env, fs, process};

use wgpu::{AdapterInfo, Device, Features, PipelineCache, PipelineCacheDescriptor};

use super::lock;

/// The cache directory, if any.
pub fn folder() -> Option<PathBuf> {
    let given = |name| env::var_os(name).map(PathBuf::from);
    let own = given("RGRAD_CACHE_DIR");
    let path = own
        .or_else(|| given("XDG_CACHE_HOME").map(|p| p.join("rgrad")))
        .or_else(|| given("LOCALAPPDATA").map(|p| p.join("rgrad")))
        .or_else(|| given("HOME").map(|p| p.join(".cache/rgrad")))?;
    if path.as_os_str().is_empty() { None } else { Some(path) }
}

/// The file for an adapter and purpose.
pub fn file(info: &AdapterInfo, purpose: &str) -> Option<PathBuf> {
    let mut hash = DefaultHasher::new();
    let version = env!("CARGO_PKG_VERSION");
    (&info.name, &info.driver, &info.driver_info, info.vendor, info.device, version).hash(&mut hash);
    let backend = format!("{:?}", info.backend).to_lowercase();
    Some(folder()?.join(format!("{purpose}-{backend}-{:016x}", hash.finish())))
}

/// Writes a file atomically. Failure, for example on a full or read-only disk, only loses the cache.
pub(super) fn write(path: &Path, bytes: &[u8]) -> bool {
    let Some(folder) = path.parent() else { return false };
    let temporary = path.with_extension(format!("{}.part", process::id()));
    let done = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&temporary, bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        // A failure to clean up is ignored.
        let _ = fs::remove_file(&temporary);
    }
    done.is_ok()
}

/// Features that may be faulty in a driver, by their names in the file.
const AVOIDABLE: [(&str, Features); 2] =
    [("int64", Features::SHADER_INT64), ("float64", Features::SHADER_F64)];

/// The features that an adapter's file says to avoid.
pub fn avoided(info: &AdapterInfo) -> Features {
    let text = file(info, "avoid").and_then(|p| fs::read_to_string(p).ok()).unwrap_or_default();
    text.lines()
        .filter_map(|l| AVOIDABLE.iter().find(|(name, _)| *name == l.trim()))
        .fold(Features::empty(), |all, (_, feature)| all | *feature)
}

/// The names of features.
pub fn names(features: Features) -> impl Iterator<Item = &'static str> {
    AVOIDABLE.iter().filter(move |(_, f)| features.contains(*f)).map(|(name, _)| *name)
}

/// Records which features to avoid from the next opening on; returns whether that succeeded.
pub fn avoid(info: &AdapterInfo, names: &[String]) -> bool {
    let known = |n: &&String| AVOIDABLE.iter().any(|(name, _)| name == n);
    let text: String = names.iter().filter(known).map(|n| format!("{n}\n")).collect();
    match file(info, "avoid") {
        Some(path) if text.is_empty() => !path.exists() || fs::remove_file(path).is_ok(),
        Some(path) => write(&path, text.as_bytes()),
        None => false,
    }
}

/// The file header; a hash of the content follows.
const MAGIC: &[u8; 8] = b"rgradpc1";

/// The driver's pipeline cache, if supported.
pub struct Cache {
    handle: Option<PipelineCache>,
    path: Option<PathBuf>,
    /// The hash of the saved content.
    saved: Mutex<u64>,
}

impl Cache {
    pub fn load(device: &Device, info: &AdapterInfo) -> Cache {
        let path = file(info, "pipelines");
        if path.is_none() || !device.features().contains(Features::PIPELINE_CACHE) {
            return Cache { handle: None, path: None, saved: Mutex::new(0) };
        }
        let bytes = path.as_ref().and_then(|p| fs::read(p).ok()).unwrap_or_default();
        let data = contents(&bytes);
        let descriptor = PipelineCacheDescriptor { label: None, data, fallback: true };
        // SAFETY: the data came from `get_data` of the same version of wgpu, adapter and driver, as encoded in the
        // file name, and its hash shows that it is complete; wgpu and the driver check their own headers too.
        let handle = unsafe { device.create_pipeline_cache(&descriptor) };
        Cache { handle: Some(handle), path, saved: Mutex::new(data.map_or(0, hash)) }
    }

    pub fn handle(&self) -> Option<&PipelineCache> {
        self.handle.as_ref()
    }

    /// Writes the cache if it has changed.
    pub fn save(&self) {
        let (Some(handle), Some(path)) = (&self.handle, &self.path) else { return };
        let Some(data) = handle.get_data() else { return };
        let (mut saved, now) = (lock(&self.saved), hash(&data));
        if *saved != now && write(path, &[&MAGIC[..], &now.to_le_bytes(), &data].concat()) {
            *saved = now;
        }
    }
}

fn hash(data: &[u8]) -> u64 {
    let mut hash = DefaultHasher::new();
    data.hash(&mut hash);
    hash.finish()
}

/// The content of a file, if its hash matches.
fn contents(bytes: &[u8]) -> Option<&[u8]> {
    let (sum, data) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    if hash(data) == u64::from_le_bytes(*sum) { Some(data) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_pipelines_counts_only_whole() {
        let whole = [&MAGIC[..], &hash(b"data").to_le_bytes(), b"data"].concat();
        assert_eq!(contents(&whole), Some(&b"data"[..]));
        assert_eq!(contents(&whole[..whole.len() - 1]), None);
        assert_eq!(contents(b"rgradpc0"), None);
        assert_eq!(contents(&[]), None);
    }
}
