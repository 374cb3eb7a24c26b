//! Rules that the compiler does not check: dependencies between layers, and the files that may contain unsafe code.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use syn::visit::{self, Visit};

/// The layers from the bottom up; a module may use its own layer and those before it.
const LAYERS: &[&[&str]] = &[
    &["error", "dtype", "device", "layout"],
    &["storage", "formula"],
    &["backend"],
    &["tensor", "graph"],
    &["ops"],
    &["engine", "optim"],
    &["python"],
];

/// Intended exceptions, each with its reason.
const ALLOWED: &[(&str, &str)] = &[
    // On `f32` a formula runs through the vector functions of the CPU, which depend only on `dtype`.
    ("formula", "backend::cpu::math"),
];

/// The files that may check whether a device is a GPU: the binding passes device names to Python, and exposes memory
/// only on the host.
const NAMES_DEVICES: &[&str] = &[
    "src/python/method.rs",
    "src/python/modes.rs",
    "src/python/object.rs",
    "src/python/storage.rs",
    "src/python/tensor.rs",
];

/// The files that may contain unsafe code.
const UNSAFE: &[&str] = &[
    "src/backend/cpu/microkernel.rs",
    "src/backend/cpu/microkernel/vector.rs",
    "src/backend/cpu/output.rs",
    "src/backend/cpu/parallel.rs",
    "src/backend/gpu/cache.rs",
    "src/backend/simd.rs",
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

/// The names used in a file: paths from the crate root, and called methods.
#[derive(Default)]
struct Names {
    paths: Vec<String>,
    methods: Vec<String>,
}

/// Collects [`Names`] from a syntax tree, except test items.
struct Collector {
    /// The module of the visited code.
    module: Vec<String>,
    /// The full path of names introduced by imports and child modules, by module and name.
    meaning: HashMap<(Vec<String>, String), Vec<String>>,
    names: Names,
}

impl Collector {
    /// Resolves a path to the crate root; None for paths outside the crate.
    fn resolve(&self, segments: &[String]) -> Option<Vec<String>> {
        let first = segments.first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module.split_last()?.1.to_vec(),
            name => self.meaning.get(&(self.module.clone(), name.to_owned()))?.clone(),
        };
        for segment in &segments[1..] {
            match segment.as_str() {
                "super" => drop(at.pop()),
                _ => at.push(segment.clone()),
            }
        }
        Some(at)
    }

    fn found(&mut self, segments: &[String]) {
        if let Some(path) = self.resolve(segments) {
            self.names.paths.push(path.join("::"));
        }
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        let (path, name) = match tree {
            syn::UseTree::Path(p) => return self.import(&p.tree, &with(&p.ident)),
            syn::UseTree::Group(g) => return g.items.iter().for_each(|t| self.import(t, before)),
            syn::UseTree::Glob(_) => (before.to_vec(), None),
            syn::UseTree::Name(n) if n.ident == "self" => (before.to_vec(), before.last().cloned()),
            syn::UseTree::Name(n) => (with(&n.ident), Some(n.ident.to_string())),
            syn::UseTree::Rename(r) if r.ident == "self" => (before.to_vec(), Some(r.rename.to_string())),
            syn::UseTree::Rename(r) => (with(&r.ident), Some(r.rename.to_string())),
        };
        let Some(full) = self.resolve(&path) else { return };
        if let Some(name) = name {
            self.meaning.insert((self.module.clone(), name), full);
        }
        self.found(&path);
    }

    /// Scans the tokens of a macro, which has no syntax tree, for paths joined by `::` and for words after a dot.
    fn tokens(&mut self, text: &str) {
        let spaced = text.replace("::", " :: ").replace('.', " . ");
        let words: Vec<&str> = spaced
            .split(|c: char| c.is_whitespace() || "(){}[],;&<>|!*=+-/#?\"'".contains(c))
            .filter(|w| !w.is_empty())
            .collect();
        let mut at = 0;
        while at < words.len() {
            let mut path = vec![words[at].trim_start_matches('$').to_owned()];
            while words.get(at + 1) == Some(&"::") && at + 2 < words.len() {
                path.push(words[at + 2].to_owned());
                at += 2;
            }
            if path.len() > 1 {
                self.found(&path);
            }
            if words.get(at.wrapping_sub(1)) == Some(&".") {
                self.names.methods.push(words[at].to_owned());
            }
            at += 1;
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let names_test = |a: &syn::Attribute| {
        a.path().is_ident("test")
            || a.path().is_ident("cfg")
                && a.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    };
    attributes.iter().any(names_test)
}

impl<'a> Visit<'a> for Collector {
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.import(&item.tree, &[]);
        }
    }

    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.found(&segments);
        self.names.methods.extend(segments.last().filter(|_| segments.len() > 1).cloned());
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        self.names.methods.push(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        self.tokens(&call.tokens.to_string());
        visit::visit_macro(self, call);
    }
}

/// Visits child modules first, then imports, so that a path has the same meaning everywhere in the file.
fn names_of(file: &str, text: &str) -> Names {
    let tree = syn::parse_file(text).unwrap_or_else(|e| panic!("{file}: {e}"));
    let inner = file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    let module = if inner == "lib" { Vec::new() } else { inner.split('/').map(str::to_owned).collect() };
    let mut collector = Collector { module, meaning: HashMap::new(), names: Names::default() };
    for item in &tree.items {
        if let syn::Item::Mod(m) = item {
            let full = [&collector.module[..], &[m.ident.to_string()]].concat();
            collector.meaning.insert((collector.module.clone(), m.ident.to_string()), full);
        }
    }
    collector.visit_file(&tree);
    collector.names = Names::default();
    collector.visit_file(&tree);
    collector.names
}

/// The files of the crate with the names used in each, except test-only modules.
fn named() -> &'static [(String, Names)] {
    static NAMED: OnceLock<Vec<(String, Names)>> = OnceLock::new();
    NAMED.get_or_init(|| {
        let code = all().into_iter().filter(|(f, _)| !f.ends_with("/tests.rs") && !f.contains("/tests/"));
        code.map(|(file, text)| {
            let names = names_of(&file, &text);
            (file, names)
        })
        .collect()
    })
}

/// Whether a path equals `within` or is inside it.
fn leads(path: &str, within: &str) -> bool {
    path.strip_prefix(within).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_above_backend(file: &str) -> bool {
    level(module_of(file)) > level("backend")
}

// ---- the rules, applied to the names of one file

fn arrows_up(file: &str, names: &Names) -> Vec<String> {
    let from = module_of(file);
    let Some(here) = level(from) else { return Vec::new() };
    let wrong = |path: &&String| {
        let to = path.split("::").next().unwrap();
        let allowed = ALLOWED.iter().any(|(f, t)| *f == from && leads(path, t));
        level(to).is_some_and(|there| there > here) && !allowed
    };
    names.paths.iter().filter(wrong).map(|path| format!("{file} uses crate::{path}")).collect()
}

fn asks_for_gpu(file: &str, names: &Names) -> Vec<String> {
    let asks = is_above_backend(file) && names.methods.iter().any(|m| m == "is_gpu");
    if asks { vec![format!("{file} asks is_gpu")] } else { Vec::new() }
}

fn names_one_backend(file: &str, names: &Names) -> Vec<String> {
    let one = |path: &&String| leads(path, "backend::cpu") || leads(path, "backend::gpu");
    let found = names.paths.iter().filter(|_| is_above_backend(file)).filter(one);
    found.map(|path| format!("{file} uses crate::{path}")).collect()
}

fn crosses_from_gpu_to_cpu(file: &str, names: &Names) -> Vec<String> {
    let found = names.paths.iter().filter(|path| leads(path, "backend::cpu"));
    found.filter(|_| file.starts_with("src/backend/gpu")).map(|p| format!("{file} uses crate::{p}")).collect()
}

/// Applies a rule to the whole crate except for some files, each of which must still break it.
fn hold(rule: fn(&str, &Names) -> Vec<String>, but: &[&str]) {
    let (mut wrong, mut excepted) = (Vec::new(), Vec::new());
    for (file, names) in named() {
        let broken = rule(file, names);
        if !broken.is_empty() && but.contains(&file.as_str()) {
            excepted.push(file.clone());
        } else {
            wrong.extend(broken);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let idle: Vec<_> = but.iter().filter(|file| !excepted.iter().any(|e| e == **file)).collect();
    assert!(idle.is_empty(), "exceptions that nothing needs any more: {idle:?}");
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
    hold(arrows_up, &[]);
}

#[test]
fn nothing_above_the_seam_asks_for_the_kind_of_device() {
    hold(asks_for_gpu, NAMES_DEVICES);
}

#[test]
fn nothing_above_the_seam_names_one_backend() {
    hold(names_one_backend, &[]);
}

#[test]
fn the_gpu_does_not_use_the_cpu() {
    hold(crosses_from_gpu_to_cpu, &[]);
}

/// Checks each rule with snippets that break it in different ways, and with one that does not.
#[test]
fn the_rules_see_through_imports() {
    let check = |rule: fn(&str, &Names) -> Vec<String>, file: &str, broken: &[&str], kept: &[&str]| {
        for text in broken {
            assert!(!rule(file, &names_of(file, text)).is_empty(), "{file} passes: {text}");
        }
        for text in kept {
            let wrong = rule(file, &names_of(file, text));
            assert!(wrong.is_empty(), "{wrong:?}: {text}");
        }
    };
    check(
        arrows_up,
        "src/layout.rs",
        &[
            "use crate::{dtype, ops};",
            "use crate::ops::{self as o, rows};",
            "fn f() { crate::ops::call() }",
            "mod inner { use super::super::tensor::Tensor; }",
            "fn f() { println!(\"{}\", crate::engine::run()) }",
            "fn f() -> crate::graph::Edge { todo!() }",
        ],
        &["use crate::dtype::DType;", "#[cfg(test)] mod tests { use crate::ops; }", "// crate::ops"],
    );
    check(
        asks_for_gpu,
        "src/ops/a.rs",
        &[
            "fn f(t: &T) -> bool { t.device().is_gpu() }",
            "fn f(t: &T) { assert!(!t.device().is_gpu()) }",
            "fn f(d: &[D]) -> bool { d.iter().all(Device::is_gpu) }",
        ],
        &["/// is_gpu\nfn f() { g(\"is_gpu\") }"],
    );
    check(
        names_one_backend,
        "src/ops/a.rs",
        &[
            "use crate::{backend::{conv, cpu::parallel}, dtype};",
            "use crate::backend; fn f() { backend::cpu::run() }",
            "use crate::backend as b; fn f() { b::gpu::run() }",
            "use super::super::backend::gpu;",
            "mod deep { fn f() { super::super::super::backend::cpu::run() } }",
            "m! { use $crate::backend::cpu::x; }",
            "use crate::backend::*; use crate::backend::cpu::*;",
        ],
        &["use crate::backend::{conv, pointwise};", "use crate::backend::gpus;"],
    );
    check(
        crosses_from_gpu_to_cpu,
        "src/backend/gpu/a.rs",
        &[
            "use super::super::cpu;",
            "use crate::backend::{View, cpu::pool};",
            "fn f() { super::super::cpu::x() }",
        ],
        &["use super::pool;", "use crate::backend::plane;"],
    );
}

#[test]
fn unsafe_code_stands_only_in_the_named_files() {
    let mut found: Vec<String> = all()
        .into_iter()
        // Without test-only modules, which the crate does not contain.
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

/// A function that is called in a loop and not inlined is compiled for the baseline, and the loop is not vectorized.
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
