// The three products of a convolution: of an input x [n, c_in, input], a weight w [c_out, c_in / groups, kernel] and an
// output y [n, c_out, output], each two give the third. Four channels an invocation where channels are summed over.
//
// As it stands this is the output of float32 without a bias.

// @slot types
alias T = f32;
// @end

struct Params {
    // Invocations.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    n: u32,
    // Per group.
    c_in: u32,
    c_out: u32,
    groups: u32,
    // How many invocations share the images of a gradient of the weight.
    segments: u32,
    // Where the tensors begin, in elements.
    first_a: u32,
    first_b: u32,
    first_bias: u32,
    first_result: u32,
    unused: u32,
    // Sizes of the last three dimensions; w is not used.
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

fn nearest(i: u32, n: u32) -> u32 { return select(n - 1u, i, i < n); }

fn volume(s: vec4<u32>) -> u32 { return s.x * s.y * s.z; }

// Coordinates within three dimensions.
fn split(i: u32, s: vec4<u32>) -> vec3<u32> {
    let row = i / s.z;
    let plane = row / s.y;
    return vec3<u32>(plane, row - plane * s.y, i - row * s.z);
}

fn join(p: vec3<u32>, s: vec4<u32>) -> u32 { return (p.x * s.y + p.y) * s.z + p.z; }

// Where a tap meets the input for a position of the output; beyond the edges it wraps to what is not inside.
fn met(at: vec3<u32>, tap: vec3<u32>) -> vec3<u32> {
    return at * params.stride.xyz + tap * params.dilation.xyz - params.padding.xyz;
}

fn inside(p: vec3<u32>, s: vec4<u32>) -> bool { return p.x < s.x && p.y < s.y && p.z < s.z; }

// The output: x is a, w is b.
fn output_of(i: u32) {
    let plane = volume(params.output);
    let blocks = (params.c_out + 3u) / 4u;
    let row = i / plane;
    let at = split(i - row * plane, params.output);
    let group_row = row / blocks;
    let channel = (row - group_row * blocks) * 4u;
    let image = group_row / params.groups;
    let group = group_row - image * params.groups;
    let taps = volume(params.kernel);
    let w0 = (group * params.c_out + channel) * params.c_in * taps;
    let w1 = (group * params.c_out + nearest(channel + 1u, params.c_out)) * params.c_in * taps;
    let w2 = (group * params.c_out + nearest(channel + 2u, params.c_out)) * params.c_in * taps;
    let w3 = (group * params.c_out + nearest(channel + 3u, params.c_out)) * params.c_in * taps;
    let input = volume(params.input);
    let x = params.first_a + (image * params.groups + group) * params.c_in * input;
    var sum = vec4<T>();
    for (var t = 0u; t < taps; t++) {
        let p = met(at, split(t, params.kernel));
        if !inside(p, params.input) { continue; }
        let place = x + join(p, params.input);
        for (var c = 0u; c < params.c_in; c++) {
            let v = a[place + c * input];
            let k = params.first_b + c * taps + t;
            sum += v * vec4<T>(b[k + w0], b[k + w1], b[k + w2], b[k + w3]);
        }
    }
    let out = params.first_result
        + ((image * params.groups + group) * params.c_out + channel) * plane + (i - row * plane);
    for (var c = 0u; c < 4u && channel + c < params.c_out; c++) {
        result[out + c * plane] = sum[c] + bias_of(group * params.c_out + channel + c);
    }
}

// The gradient of the input: that of the output is a, w is b.
fn input_of(i: u32) {
    let plane = volume(params.input);
    let blocks = (params.c_in + 3u) / 4u;
    let row = i / plane;
    let at = split(i - row * plane, params.input);
    let group_row = row / blocks;
    let channel = (row - group_row * blocks) * 4u;
    let image = group_row / params.groups;
    let group = group_row - image * params.groups;
    let taps = volume(params.kernel);
    let w0 = channel * taps;
    let w1 = nearest(channel + 1u, params.c_in) * taps;
    let w2 = nearest(channel + 2u, params.c_in) * taps;
    let w3 = nearest(channel + 3u, params.c_in) * taps;
    let output = volume(params.output);
    let y = params.first_a + (image * params.groups + group) * params.c_out * output;
    let w = params.first_b + group * params.c_out * params.c_in * taps;
    var sum = vec4<T>();
    for (var t = 0u; t < taps; t++) {
        // The position whose window has this tap here, if there is one.
        let ahead = at + params.padding.xyz - split(t, params.kernel) * params.dilation.xyz;
        let origin = ahead / params.stride.xyz;
        if !inside(origin, params.output) || !all(origin * params.stride.xyz == ahead) { continue; }
        let place = y + join(origin, params.output);
        for (var c = 0u; c < params.c_out; c++) {
            let v = a[place + c * output];
            let k = w + c * params.c_in * taps + t;
            sum += v * vec4<T>(b[k + w0], b[k + w1], b[k + w2], b[k + w3]);
        }
    }
    let out = params.first_result
        + ((image * params.groups + group) * params.c_in + channel) * plane + (i - row * plane);
    for (var c = 0u; c < 4u && channel + c < params.c_in; c++) {
        result[out + c * plane] = sum[c];
    }
}

// The gradient of the weight, of some of the images: that of the output is a, x is b.
fn weight_of(i: u32) {
    let taps = volume(params.kernel);
    let size = params.groups * params.c_out * params.c_in * taps;
    let segment = i / size;
    let element = i - segment * size;
    let row = element / taps;
    let tap = split(element - row * taps, params.kernel);
    let channel = row / params.c_in;
    let channel_in = row - channel * params.c_in;
    let group = channel / params.c_out;
    let input = volume(params.input);
    let output = volume(params.output);
    var sum = T(0);
    for (var image = segment; image < params.n; image += params.segments) {
        let y = params.first_a + (image * params.groups * params.c_out + channel) * output;
        let x = params.first_b + ((image * params.groups + group) * params.c_in + channel_in) * input;
        for (var o = 0u; o < output; o++) {
            let p = met(split(o, params.output), tap);
            if inside(p, params.input) { sum += a[y + o] * b[x + join(p, params.input)]; }
        }
    }
    result[params.first_result + i] = sum;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let i = id.x + id.y * groups.x * 64u;
    if i >= params.count { return; }
    // @slot call
    output_of(i);
    // @end
}
