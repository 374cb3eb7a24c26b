//! Tells the linker to fold functions of identical code, of which generic kernels have many, and leaves out of shaders
//! what is for their readers.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shaders");
    let target = env::var("TARGET").unwrap_or_default();
    // Rust's linker for this target, which is LLD, knows the option; those of others may not.
    if target == "x86_64-unknown-linux-gnu" {
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

/// A shader without comments, but those that mark its slots. Declarations still stand out by their indentation.
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
