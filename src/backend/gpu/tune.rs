//! Autotuning: measures on first use which of several kernels is fastest on an adapter, and stores the result.
//!
//! Note [The file of the tuner] There is one file per adapter, driver and version of this crate (`cache::file`). Its
//! first line identifies these; each other line is a key, a tab and the name of a kernel. A file that cannot be read
//! or has a different first line is ignored and rewritten; a stored choice that is not a candidate is measured again.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::cache;
use super::device::Gpu;
use super::lock;
use crate::error::Result;

/// Number of measurements per kernel, of which the minimum counts; one only if measuring all kernels once exceeds
/// `LONG`.
const RUNS: usize = 4;
const LONG: Duration = Duration::from_secs(1);

/// The known results.
pub struct Tuner {
    /// Identifies adapter, driver and version.
    title: String,
    file: Option<PathBuf>,
    choices: Mutex<BTreeMap<String, String>>,
}

impl Tuner {
    /// The tuner of an adapter, with the content of its file.
    pub fn new(info: &wgpu::AdapterInfo) -> Tuner {
        let title = format!(
            "rgrad {} on {} ({:?}, {} {})",
            env!("CARGO_PKG_VERSION"),
            info.name,
            info.backend,
            info.driver,
            info.driver_info
        )
        .replace(['\n', '\t'], " ");
        let file = cache::file(info, "tuned");
        Tuner::open(title, file)
    }

    fn open(title: String, file: Option<PathBuf>) -> Tuner {
        let mut tuner = Tuner { title, file, choices: Mutex::default() };
        tuner.choices = Mutex::new(tuner.saved());
        tuner
    }

    /// The content of the file.
    fn saved(&self) -> BTreeMap<String, String> {
        let text = self.file.as_ref().and_then(|f| fs::read_to_string(f).ok()).unwrap_or_default();
        let mut lines = text.lines();
        if lines.next() != Some(&self.title) {
            return BTreeMap::new();
        }
        lines.filter_map(|l| l.split_once('\t')).map(|(q, a)| (q.to_owned(), a.to_owned())).collect()
    }

    fn choice(&self, question: &str) -> Option<String> {
        lock(&self.choices).get(question).cloned()
    }

    fn keep(&self, question: &str, answer: &str) {
        let mut choices = lock(&self.choices);
        choices.insert(question.to_owned(), answer.to_owned());
        let Some(file) = &self.file else { return };
        // Merge results that other processes have saved meanwhile.
        let mut all = self.saved();
        all.extend(choices.clone());
        let mut text = format!("{}\n", self.title);
        all.iter().for_each(|(q, a)| text += &format!("{q}\t{a}\n"));
        cache::write(file, text.as_bytes());
    }
}

/// The fastest candidate; `run` launches the candidate with an index.
///
/// With `RGRAD_GPU_TUNE=0` nothing is measured and the first candidate is used.
pub fn fastest(
    gpu: &'static Gpu,
    question: &str,
    candidates: &[String],
    run: impl Fn(usize) -> Result<()>,
) -> Result<usize> {
    let known = gpu.tuner.choice(question);
    if let Some(i) = known.and_then(|name| candidates.iter().position(|c| *c == name)) {
        return Ok(i);
    }
    if candidates.len() < 2 || std::env::var("RGRAD_GPU_TUNE").is_ok_and(|v| v == "0") {
        return Ok(0);
    }
    let timed = |i: usize| {
        let start = Instant::now();
        run(i)?;
        gpu.finish()?;
        Ok(start.elapsed())
    };
    gpu.finish()?;
    // The first run includes compilation.
    (0..candidates.len()).try_for_each(|i| timed(i).map(|_| ()))?;
    let mut times = vec![Duration::MAX; candidates.len()];
    // Round-robin, so that other load on the machine affects all candidates alike.
    for _ in 0..RUNS {
        let start = Instant::now();
        for (i, best) in times.iter_mut().enumerate() {
            *best = timed(i)?.min(*best);
        }
        if start.elapsed() > LONG {
            break;
        }
    }
    let best = times.iter().enumerate().min_by_key(|(_, t)| **t).map_or(0, |(i, _)| i);
    gpu.tuner.keep(question, &candidates[best]);
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("rgrad-tune-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir.join("tuned.txt")
    }

    #[test]
    fn a_choice_is_found_again_by_another_tuner_of_the_same_adapter_alone() {
        let path = file("again");
        let open = |title: &str| Tuner::open(title.into(), Some(path.clone()));
        let (one, two) = (open("A"), open("A"));
        one.keep("matmul 1", "Tiled(64)");
        two.keep("matmul 2", "Direct(4, 1)");
        let later = open("A");
        assert_eq!(later.choice("matmul 1").as_deref(), Some("Tiled(64)"));
        assert_eq!(later.choice("matmul 2").as_deref(), Some("Direct(4, 1)"));
        assert_eq!(open("B").choice("matmul 1"), None);
        let files = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing but the file is left");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_file_that_is_none_of_ours_is_ignored_and_written_anew() {
        let path = file("corrupt");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for bytes in [&b"\xff\xfe\x00"[..], b"", b"A", b"A\nno tab here\n", b"other\nq\tTiled(64)\n"] {
            fs::write(&path, bytes).unwrap();
            let tuner = Tuner::open("A".into(), Some(path.clone()));
            assert_eq!(tuner.choice("q"), None);
            tuner.keep("q", "Tiled(128)");
            assert_eq!(
                Tuner::open("A".into(), Some(path.clone())).choice("q").as_deref(),
                Some("Tiled(128)")
            );
        }
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
