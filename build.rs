//! Makes the linker fold identical functions, of which generic kernels produce many, and strips comments from shaders.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shaders");
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    // Rust's default linker for this target, LLD, supports the option; linkers of other targets may not, nor may one that
    // was configured, which Cargo names in RUSTC_LINKER (Zig's, with which `make wheels` links, refuses it).
    if target == "x86_64-unknown-linux-gnu" && env::var_os("RUSTC_LINKER").is_none() {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--icf=all");
    }
    let out = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("shaders");
    fs::create_dir_all(&out)?;
    for shader in fs::read_dir("shaders")? {
        let path = shader?.path();
        if let (Some("wgsl"), Some(name)) = (path.extension().and_then(|e| e.to_str()), path.file_name()) {
            fs::write(out.join(name), shortened(&fs::read_to_string(&path)?))?;
        }
    }
    Ok(())
}

/// A shader without comments except slot markers. Indentation is kept, since it identifies declarations.
fn shortened(source: &str) -> String {
    let mut out = String::new();
    for line in source.lines() {
        let text = line.trim();
        let marks_slot = text.starts_with("// @");
        let code = if marks_slot { text } else { text.split("//").next().unwrap_or_default().trim_end() };
        if !code.is_empty() {
            if line.starts_with(' ') {
                out.push(' ');
            }
            out += code;
            out.push('\n');
        }
    }
    out
}
