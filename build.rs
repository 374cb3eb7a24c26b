//! Tells the linker to fold functions of identical code: with generic kernels there are many.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = std::env::var("TARGET").unwrap_or_default();
    // Rust's linker for this target, which is LLD, knows the option; those of others may not.
    if target == "x86_64-unknown-linux-gnu" {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--icf=all");
    }
}
