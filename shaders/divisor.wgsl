// Reports zero divisors among integers. The default slots are for int32.

// @slot types
alias T = i32;
// @end

struct Params {
    // Number of elements.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    first: u32,
    // The fault word to report.
    fault: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> faults: array<atomic<u32>>;
// @slot bindings
@group(0) @binding(2) var<storage, read> x: array<i32>;
// @end

// @slot prelude
// @end

// @slot load
fn load_x(i: u32) -> T { return T(x[i]); }
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let at = id.x + id.y * groups.x * 64u;
    if at >= params.count { return; }
    if load_x(params.first + at) == T(0) { atomicMax(&faults[0], params.fault); }
}
