//! The house rules that a compiler does not check: who may use whom, and where unsafe code may stand.

use std::fs;
use std::path::{Path, PathBuf};

/// Layers from the bottom up; a module uses its own layer and those before it.
const LAYERS: &[&[&str]] = &[
    &["error", "dtype", "device", "layout"],
    &["storage", "formula"],
    &["backend"],
    &["tensor", "graph"],
    &["ops"],
    &["engine", "optim"],
    &["python"],
];

/// Arrows that point up or sideways on purpose, each with its reason.
const ALLOWED: &[(&str, &str)] = &[
    // A formula runs on `f32` through the vector functions of the CPU, which use nothing but `dtype`.
    ("formula", "backend::cpu::math"),
];

/// The files that may hold unsafe code.
const UNSAFE: &[&str] = &[
    "src/backend/cpu/microkernel.rs",
    "src/backend/cpu/microkernel/vector.rs",
    "src/backend/cpu/output.rs",
    "src/backend/cpu/parallel.rs",
    "src/backend/cpu/simd.rs",
    "src/backend/gpu/cache.rs",
    "src/python/dlpack.rs",
    "src/python/interop.rs",
    "src/python/method.rs",
    "src/python/object.rs",
    "src/python/storage.rs",
    "src/storage/alloc.rs",
    "src/storage/cpu.rs",
    "src/storage/shared.rs",
];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for p in entries {
        if p.is_dir() {
            sources(&p, out);
        } else if p.extension().is_some_and(|e| e == "rs") {
            out.push(p);
        }
    }
}

fn all() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    files
        .into_iter()
        .map(|p| {
            let name = p.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            (name, fs::read_to_string(p).unwrap())
        })
        .collect()
}

fn module_of(file: &str) -> &str {
    let rest = file.trim_start_matches("src/");
    rest.split(['/', '.']).next().unwrap()
}

fn level(module: &str) -> Option<usize> {
    LAYERS.iter().position(|l| l.contains(&module))
}

/// Paths that follow `crate::` in code, macros and tests aside.
fn uses(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap();
    code.match_indices("crate::")
        .filter(|(i, _)| !code[..*i].ends_with('$'))
        .map(|(i, m)| {
            let rest = &code[i + m.len()..];
            rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect()
        })
        .collect()
}

#[test]
fn every_module_belongs_to_a_layer() {
    for (file, _) in all() {
        let module = module_of(&file);
        assert!(module == "lib" || level(module).is_some(), "{file}: module {module} is in no layer");
    }
}

#[test]
fn arrows_point_down() {
    let mut wrong = Vec::new();
    for (file, text) in all() {
        let from = module_of(&file);
        let Some(here) = level(from) else { continue };
        for path in uses(&text) {
            let to = path.split("::").next().unwrap();
            let allowed = ALLOWED.iter().any(|(f, t)| *f == from && path.starts_with(t));
            if level(to).is_some_and(|there| there > here) && !allowed {
                wrong.push(format!("{file} uses crate::{path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that point up:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_stands_only_in_the_named_files() {
    let mut found: Vec<String> = all()
        .into_iter()
        // Modules of tests alone, which the crate does not contain.
        .filter(|(file, _)| !file.ends_with("/tests.rs"))
        .filter(|(_, text)| {
            text.lines().any(|l| {
                let code = l.split("//").next().unwrap();
                code.contains("allow(unsafe_code)")
                    || code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == "unsafe")
            })
        })
        .map(|(file, _)| file)
        .collect();
    found.sort();
    assert_eq!(
        found, UNSAFE,
        "the list of files with unsafe code changed: that is a decision, see CONTRIBUTING.md"
    );
}

/// A function that is called from a loop and not inlined is compiled for the baseline, and the loop not vectorised.
#[test]
fn functions_of_formulas_are_always_inlined() {
    let mut found = 0;
    for (file, text) in all().iter().filter(|(file, _)| file.starts_with("src/ops/rows/")) {
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, l)| l.contains("fn ") && l.contains("<E: ")) {
            let attributes = lines[..at].iter().rev().take_while(|l| l.starts_with("#["));
            assert!(attributes.into_iter().any(|l| *l == "#[inline(always)]"), "{file}: {line}");
            found += 1;
        }
    }
    assert!(found > 5);
}
