// The three products of a convolution: of an input x [n, c_in, input], a weight w [c_out, c_in / groups, kernel] and
// an output y [n, c_out, output], each is computed from the other two. An invocation computes some channels at some
// positions, or for a weight some output channels by some input channels.
//
// Channels and positions beyond the end are computed from clamped indices and not written. The default slots compute a
// float32 output without bias, one channel at four positions.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of invocations.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    n: u32,
    groups: u32,
    // Channels per group: of the result, and of the sum (for a weight: of the output, and of the input).
    rows: u32,
    depth: u32,
    // Strides in the weight of a channel of the result, and of one of the sum.
    w_row: u32,
    w_depth: u32,
    // For a weight: the number of partial sums, the maximum number of pieces of output rows in each, and the length of
    // a piece.
    segments: u32,
    share: u32,
    piece: u32,
    // Offsets of the tensors, in elements.
    first_a: u32,
    first_b: u32,
    first_bias: u32,
    first_result: u32,
    // Sizes of the last three dimensions; w is unused.
    input: vec4<u32>,
    kernel: vec4<u32>,
    output: vec4<u32>,
    stride: vec4<u32>,
    padding: vec4<u32>,
    dilation: vec4<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read> a: array<f32>;
@group(0) @binding(3) var<storage, read> b: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
// @end

// @slot bias
fn bias_of(channel: u32) -> T { return T(0); }
// @end

fn clipped(i: u32, n: u32) -> u32 { return select(0u, i, i < n); }

// @slot geometry
fn volume(s: vec4<u32>) -> u32 { return s.x * s.y * s.z; }

// Coordinates in three dimensions.
fn split(i: u32, s: vec4<u32>) -> vec3<u32> {
    let row = i / s.z;
    let plane = row / s.y;
    return vec3<u32>(plane, row - plane * s.y, i - row * s.z);
}

fn join(p: vec3<u32>, s: vec4<u32>) -> u32 { return (p.x * s.y + p.y) * s.z + p.z; }

// The input coordinates of a tap for a position of the output; for padding they wrap to values that are not inside.
fn met(at: vec3<u32>, tap: vec3<u32>) -> vec3<u32> {
    return at * params.stride.xyz + tap * params.dilation.xyz - params.padding.xyz;
}

fn is_inside(p: vec3<u32>, s: vec4<u32>) -> bool { return p.x < s.x && p.y < s.y && p.z < s.z; }

// The source element for a position of the result and a tap: its index in the plane, and whether it exists.
struct Source {
    place: u32,
    there: bool,
}
// @end

// @slot source
fn size_of_result() -> vec4<u32> { return params.output; }
fn size_of_source() -> vec4<u32> { return params.input; }
fn source(at: vec3<u32>, tap: vec3<u32>) -> Source {
    let p = met(at, tap);
    let there = is_inside(p, params.input);
    return Source(select(0u, join(p, params.input), there), there);
}
// @end

// @slot compute
const ROWS: u32 = 1u;
const POSITIONS: u32 = 4u;
fn compute(i: u32) {
    let plane = volume(size_of_result());
    let blocks = (plane + POSITIONS - 1u) / POSITIONS;
    let row_blocks = (params.rows + ROWS - 1u) / ROWS;
    let rest = i / blocks;
    let position = (i - rest * blocks) * POSITIONS;
    let image_group = rest / row_blocks;
    let row = (rest - image_group * row_blocks) * ROWS;
    let group = image_group - image_group / params.groups * params.groups;
    let of_source = volume(size_of_source());
    let start = params.first_a + image_group * params.depth * of_source;
    let w = params.first_b + group * params.rows * params.depth * volume(params.kernel);
    let at0 = split(clipped(position, plane), size_of_result());
    let at1 = split(clipped(position + 1u, plane), size_of_result());
    let at2 = split(clipped(position + 2u, plane), size_of_result());
    let at3 = split(clipped(position + 3u, plane), size_of_result());
    var c = vec4<T>();
    for (var t = 0u; t < volume(params.kernel); t++) {
        let tap = split(t, params.kernel);
        let s0 = source(at0, tap);
        let s1 = source(at1, tap);
        let s2 = source(at2, tap);
        let s3 = source(at3, tap);
        let there = vec4<bool>(s0.there, s1.there, s2.there, s3.there);
        for (var k = 0u; k < params.depth; k++) {
            let p = start + k * of_source;
            let v = vec4<T>(a[p + s0.place], a[p + s1.place], a[p + s2.place], a[p + s3.place]);
            c += b[w + row * params.w_row + k * params.w_depth + t] * select(vec4<T>(), v, there);
        }
    }
    let to = params.first_result + (image_group * params.rows + row) * plane + position;
    for (var j = 0u; j < 4u && position + j < plane; j++) {
        result[to + j] = c[j] + bias_of(group * params.rows + row);
    }
}
// @end

@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let i = id.x + id.y * groups.x * 32u;
    if i >= params.count { return; }
    compute(i);
}
