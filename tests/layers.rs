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
const NAMES_DEVICES: &[&str] =
    &["src/python/method.rs", "src/python/modes.rs", "src/python/storage.rs", "src/python/tensor.rs"];

/// Functions of tensors that other families call although they are not operations of the table, with reasons.
const NO_OPERATIONS: &[(&str, &[&str], &str)] = &[
    ("arith", &["add", "sub", "mul", "div", "neg", "pow"], "call a row, which passes the interpreters"),
    ("cast", &["to", "to_dtype"], "copy by `to`, where there is something to do"),
    ("linalg", &["triangle"], "calls `tril` or `triu`"),
    ("reduce", &["sum_mask", "sum_to"], "call `sum`, where there is something to sum"),
    ("scan", &["flipped"], "is `flip` for interpreters"),
    ("view", &["take"], "is `select`, `narrow`, `diagonal` or `unfold` for interpreters"),
    (
        "view",
        &["unsafe_view", "unsafe_squeeze", "alias", "put_back"],
        "PyTorch's names for them are not in the table",
    ),
    ("index", &["index"], "brackets, which are not in the table"),
    ("scan", &["shifted"], "the table has none like it"),
    ("reduce", &["mean_of_planes"], "keeps a memory format, which `mean` does not"),
    ("reduce", &["mean_and_var"], "without history, for the inside of an operation"),
    ("reduce", &["argument_extremum"], "what `argmax` and `argmin` are, which stand with the sorts"),
    ("reduce", &["vector_norm_impl"], "what `linalg.vector_norm` is, which stands with the matrices"),
    ("creation", &["overwrite"], "a step of filling a tensor"),
    ("matmul", &["record_added"], "the history that `addmm` and its kin share"),
    ("nn", &["rounded", "map_planes", "record_map"], "steps of an operation on planes"),
    ("sort", &["to_rows", "one_per_row"], "steps of a sort"),
    ("conv", &["with_shared_weight"], "what a convolution of slices with one weight is, below `vmap`"),
];

/// The files that may contain unsafe code.
const UNSAFE: &[&str] = &[
    "src/backend/cpu/machine/kernel.rs",
    "src/backend/cpu/microkernel.rs",
    "src/backend/cpu/microkernel/vector.rs",
    "src/backend/cpu/output.rs",
    "src/backend/cpu/parallel.rs",
    "src/backend/gpu/cache.rs",
    "src/backend/simd.rs",
    "src/python/arrays.rs",
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

/// What a file names: paths from the root of the crate, methods that it calls, and the CPU among devices.
#[derive(Default)]
struct Names {
    paths: Vec<String>,
    methods: Vec<String>,
    /// Whether it compares a device with the CPU, or tells it apart by a pattern.
    compares_with_cpu: bool,
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

/// Whether a path is `Device::Cpu`.
fn is_cpu(path: &syn::Path) -> bool {
    let last: Vec<_> = path.segments.iter().rev().take(2).map(|s| s.ident.to_string()).collect();
    last == ["Cpu", "Device"]
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

    fn visit_expr_binary(&mut self, e: &'a syn::ExprBinary) {
        let cpu = |e: &syn::Expr| matches!(e, syn::Expr::Path(p) if is_cpu(&p.path));
        let compares = matches!(e.op, syn::BinOp::Eq(_) | syn::BinOp::Ne(_));
        self.names.compares_with_cpu |= compares && (cpu(&e.left) || cpu(&e.right));
        visit::visit_expr_binary(self, e);
    }

    fn visit_pat(&mut self, p: &'a syn::Pat) {
        self.names.compares_with_cpu |= matches!(p, syn::Pat::Path(p) if is_cpu(&p.path));
        visit::visit_pat(self, p);
    }

    fn visit_macro(&mut self, call: &'a syn::Macro) {
        let text = call.tokens.to_string().replace(char::is_whitespace, "");
        let compared = ["==Device::Cpu", "!=Device::Cpu", "Device::Cpu==", "Device::Cpu!="];
        self.names.compares_with_cpu |= compared.iter().any(|c| text.contains(c))
            || call.path.is_ident("matches") && text.contains("Device::Cpu");
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

fn compares_with_the_cpu(file: &str, names: &Names) -> Vec<String> {
    let found = is_above_backend(file) && names.compares_with_cpu;
    if found {
        vec![format!("{file} tells the CPU apart: ask for the property that is meant")]
    } else {
        Vec::new()
    }
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
fn nothing_above_the_seam_tells_the_cpu_apart() {
    hold(compares_with_the_cpu, &[]);
}

#[test]
fn nothing_above_the_seam_names_one_backend() {
    hold(names_one_backend, &[]);
}

#[test]
fn the_gpu_does_not_use_the_cpu() {
    hold(crosses_from_gpu_to_cpu, &[]);
}

// ---- operations

/// The family of operations that a file belongs to.
fn family(file: &str) -> Option<&str> {
    file.strip_prefix("src/ops/")?.split(['/', '.']).next()
}

/// The files that declare operations, with what they declare.
fn declared() -> Vec<(String, String)> {
    let block = |text: &str| Some(text.split_once("\nops! {\n")?.1.split_once("\n}\n")?.0.to_owned());
    all().into_iter().filter_map(|(file, text)| Some((file, block(&text)?))).collect()
}

#[test]
fn every_operation_of_the_table_is_declared() {
    let makes = |line: &&str| {
        let code = line.split("//").next().unwrap();
        let entry = ["Op {", "Overload {"].iter().any(|w| {
            code.split_once(w).is_some_and(|(before, _)| !before.ends_with(|c: char| c.is_alphanumeric()))
        });
        entry && !code.contains("->")
    };
    let files = all().into_iter().filter(|(file, _)| file.starts_with("src/ops/"));
    let wrong = files.flat_map(|(file, text)| {
        text.lines().filter(makes).map(|l| format!("{file}: {}", l.trim())).collect::<Vec<_>>()
    });
    // The macros and the row that becomes an entry.
    let allowed = ["src/ops/declare.rs", "src/ops/mod.rs", "src/ops/schema.rs"];
    let wrong: Vec<_> = wrong.filter(|w| !allowed.iter().any(|a| w.starts_with(a))).collect();
    assert!(wrong.is_empty(), "entries that are neither rows nor declared by `ops!`:\n{}", wrong.join("\n"));
    assert!(declared().len() > 20);
}

/// The functions after `=` and `=>` in a declaration bypass the interpreters: only their family may call them.
#[test]
fn nobody_calls_an_operation_round_the_interpreters() {
    let mut below: HashMap<String, Vec<String>> = HashMap::new();
    for (file, block) in declared() {
        let last = |line: &str| line.trim().strip_suffix(';')?.rsplit([' ', ':']).next().map(str::to_owned);
        let names =
            block.lines().filter_map(last).filter(|n| n.chars().all(|c| c.is_alphanumeric() || c == '_'));
        below.entry(family(&file).unwrap().to_owned()).or_default().extend(names);
    }
    assert!(below.values().map(Vec::len).sum::<usize>() > 200);
    let mut wrong = Vec::new();
    for (file, names) in named() {
        for path in &names.paths {
            let parts: Vec<_> = path.split("::").collect();
            let ["ops", of, .., name] = &parts[..] else { continue };
            let excepted = NO_OPERATIONS.iter().any(|(f, fns, _)| f == of && fns.contains(name));
            let private =
                below.get(*of).is_some_and(|b| b.iter().any(|n| n == name)) || name.ends_with("_impl");
            if family(file) != Some(*of) && private && !excepted {
                wrong.push(format!("{file} calls {path}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a part of a signature has to do with tensors.
struct Mentions(bool);

impl<'a> Visit<'a> for Mentions {
    fn visit_path_segment(&mut self, segment: &'a syn::PathSegment) {
        self.0 |= segment.ident == "Tensor" || segment.ident == "Arg";
        visit::visit_path_segment(self, segment);
    }
}

/// Names of the functions of a file that others may call and that make tensors of tensors.
fn over_tensors(text: &str) -> Vec<String> {
    let makes = |item: &syn::Item| {
        let syn::Item::Fn(f) = item else { return None };
        let public = !matches!(f.vis, syn::Visibility::Inherited) && !is_test(&f.attrs);
        let (mut takes, mut gives) = (Mentions(false), Mentions(false));
        f.sig.inputs.iter().for_each(|i| takes.visit_fn_arg(i));
        gives.visit_return_type(&f.sig.output);
        (public && takes.0 && gives.0).then(|| f.sig.ident.to_string())
    };
    syn::parse_file(text).unwrap().items.iter().filter_map(makes).collect()
}

#[test]
fn what_families_call_of_each_other_are_operations() {
    let table: Vec<String> = declared().iter().map(|(file, _)| family(file).unwrap().to_owned()).collect();
    let mut plain: HashMap<String, Vec<String>> = HashMap::new();
    for (file, text) in all().iter().filter(|(f, _)| !f.ends_with("tests.rs")) {
        if let Some(of) = family(file).filter(|f| table.iter().any(|t| t == f)) {
            plain.entry(of.to_owned()).or_default().extend(over_tensors(text));
        }
    }
    let (mut wrong, mut used) = (Vec::new(), Vec::new());
    for (file, names) in named() {
        for path in &names.paths {
            let parts: Vec<_> = path.split("::").collect();
            let ["ops", of, .., name] = &parts[..] else { continue };
            let crosses = family(file).is_some_and(|f| f != *of);
            if !crosses || !plain.get(*of).is_some_and(|p| p.iter().any(|n| n == name)) {
                continue;
            }
            match NO_OPERATIONS.iter().find(|(f, fns, _)| f == of && fns.contains(name)) {
                Some(_) => used.push((of.to_string(), name.to_string())),
                None => wrong.push(format!("{file} calls {path}, which passes no interpreter")),
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let listed =
        NO_OPERATIONS.iter().flat_map(|(of, fns, _)| fns.iter().map(|n| (of.to_string(), n.to_string())));
    let idle: Vec<_> = listed.filter(|l| !used.contains(l)).collect();
    assert!(idle.is_empty(), "exceptions that nothing needs any more: {idle:?}");
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
        compares_with_the_cpu,
        "src/ops/a.rs",
        &[
            "fn f(t: &T) -> bool { t.device() == Device::Cpu }",
            "fn f(t: &T) { ensure!(t.device() != Device::Cpu, Value, \"\") }",
            "fn f(d: Device) -> bool { matches!(d, Device::Cpu) }",
            "fn f(d: Device) -> u8 { match d { crate::device::Device::Cpu => 0, _ => 1 } }",
            "fn f(d: Device) -> u8 { if let Device::Cpu = d { 0 } else { 1 } }",
        ],
        &[
            "fn f() -> Result<T> { t.on_device(Device::Cpu) }",
            "fn f(d: Device) -> bool { d == Device::default() }",
        ],
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
