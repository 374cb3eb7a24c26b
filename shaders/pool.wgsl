// Pooling of planes: maximum with indices, average and adaptive average, and their adjoints.
//
// The default slots compute the float32 average of windows.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of invocations.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets of the tensors, in elements.
    first: u32,
    first_result: u32,
    first_index: u32,
    // The divisor, and how it is determined: 0 as given, 1 window with padding, 2 window without.
    divisor: f32,
    divides: u32,
    unused: u32,
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
// An int64 as two words.
@group(0) @binding(2) var<storage, read_write> indices: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read> x: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn is_nan(x: f32) -> bool { return false; }
fn m_inf() -> f32 { return 3.4e38; }
fn quotient(i: u32, n: u32) -> u32 { return i / n; }
// @end

fn nearer(i: u32, j: u32) -> u32 { return select(j, i, i < j); }
fn volume(s: vec4<u32>) -> u32 { return s.x * s.y * s.z; }

fn split(i: u32, s: vec4<u32>) -> vec3<u32> {
    let row = quotient(i, s.z);
    let plane = quotient(row, s.y);
    return vec3<u32>(plane, row - plane * s.y, i - row * s.z);
}

fn join(p: vec3<u32>, s: vec4<u32>) -> u32 { return (p.x * s.y + p.y) * s.z + p.z; }
fn inside(p: vec3<u32>, s: vec4<u32>) -> bool { return p.x < s.x && p.y < s.y && p.z < s.z; }

// The input coordinates of the first tap for a result; for padding they wrap to values that are not inside.
fn origin(at: vec3<u32>) -> vec3<u32> { return at * params.stride.xyz - params.padding.xyz; }

// The half-open range of results whose windows, ignoring dilation, contain an input element.
fn covering(at: u32, a: u32) -> vec2<u32> {
    let ahead = at + params.padding[a];
    let first = select(0u, quotient(ahead - params.kernel[a], params.stride[a]) + 1u, ahead >= params.kernel[a]);
    return vec2<u32>(first, nearer(quotient(ahead, params.stride[a]) + 1u, params.output[a]));
}

// The number of elements that the divisor counts along one axis.
fn along(o: u32, a: u32) -> u32 {
    let start = o * params.stride[a];
    let padded = nearer(start + params.kernel[a], params.input[a] + 2u * params.padding[a]) - start;
    let first = select(params.padding[a], start, start > params.padding[a]);
    let last = nearer(start + params.kernel[a], params.input[a] + params.padding[a]);
    let whole = select(1u, select(0u, last - first, last > first), params.divides == 2u);
    let n = select(whole, padded, params.divides == 1u);
    return select(n, 1u, n == 0u);
}

fn mean_of(sum: T, at: vec3<u32>) -> T {
    return sum / (T(params.divisor) * T(along(at.x, 0u) * along(at.y, 1u) * along(at.z, 2u)));
}

// The adaptive window of a result along one axis.
fn share_start(o: u32, a: u32) -> u32 { return quotient(o * params.input[a], params.output[a]); }
fn share_end(o: u32, a: u32) -> u32 {
    return quotient((o + 1u) * params.input[a] + params.output[a] - 1u, params.output[a]);
}
fn share(at: vec3<u32>) -> array<vec3<u32>, 2> {
    return array<vec3<u32>, 2>(
        vec3<u32>(share_start(at.x, 0u), share_start(at.y, 1u), share_start(at.z, 2u)),
        vec3<u32>(share_end(at.x, 0u), share_end(at.y, 1u), share_end(at.z, 2u)),
    );
}

// The half-open range of results whose adaptive windows contain an input element.
fn sharing(at: u32, a: u32) -> vec2<u32> {
    let n = params.output[a];
    return vec2<u32>(quotient(at * n, params.input[a]), quotient((at + 1u) * n + params.input[a] - 1u, params.input[a]));
}

// @slot functions
fn maximum(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let at = split(i - plane * output, params.output);
    let start = params.first + plane * volume(params.input);
    var best = -m_inf();
    var place = 0u;
    var found = false;
    let corner = origin(at);
    for (var d = 0u; d < params.kernel.x; d++) {
        for (var h = 0u; h < params.kernel.y; h++) {
            for (var w = 0u; w < params.kernel.z; w++) {
                let p = corner + vec3<u32>(d, h, w) * params.dilation.xyz;
                if !inside(p, params.input) { continue; }
                let j = join(p, params.input);
                let v = x[start + j];
                if v > best || is_nan(v) || !found {
                    best = v;
                    place = j;
                    found = true;
                }
            }
        }
    }
    result[params.first_result + i] = best;
    indices[params.first_index + i] = vec2<u32>(place, 0u);
}

fn largest(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let s = share(split(i - plane * output, params.output));
    let start = params.first + plane * volume(params.input);
    var best = -m_inf();
    var place = join(s[0], params.input);
    for (var d = s[0].x; d < s[1].x; d++) {
        for (var h = s[0].y; h < s[1].y; h++) {
            for (var w = s[0].z; w < s[1].z; w++) {
                let j = join(vec3<u32>(d, h, w), params.input);
                let v = x[start + j];
                if v > best || is_nan(v) {
                    best = v;
                    place = j;
                }
            }
        }
    }
    result[params.first_result + i] = best;
    indices[params.first_index + i] = vec2<u32>(place, 0u);
}

fn average(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let at = split(i - plane * output, params.output);
    let start = params.first + plane * volume(params.input);
    var sum = T(0);
    let corner = origin(at);
    for (var d = 0u; d < params.kernel.x; d++) {
        for (var h = 0u; h < params.kernel.y; h++) {
            for (var w = 0u; w < params.kernel.z; w++) {
                let p = corner + vec3<u32>(d, h, w);
                if inside(p, params.input) { sum += x[start + join(p, params.input)]; }
            }
        }
    }
    result[params.first_result + i] = mean_of(sum, at);
}

fn spread(i: u32) {
    let input = volume(params.input);
    let plane = quotient(i, input);
    let at = split(i - plane * input, params.input);
    let start = params.first + plane * volume(params.output);
    var sum = T(0);
    let d = covering(at.x, 0u);
    let h = covering(at.y, 1u);
    let w = covering(at.z, 2u);
    for (var o = vec3<u32>(d.x, h.x, w.x); o.x < d.y; o.x++) {
        for (o.y = h.x; o.y < h.y; o.y++) {
            for (o.z = w.x; o.z < w.y; o.z++) { sum += mean_of(x[start + join(o, params.output)], o); }
        }
    }
    result[params.first_result + i] = sum;
}

fn shares(i: u32) {
    let output = volume(params.output);
    let plane = quotient(i, output);
    let s = share(split(i - plane * output, params.output));
    let start = params.first + plane * volume(params.input);
    var sum = T(0);
    for (var d = s[0].x; d < s[1].x; d++) {
        for (var h = s[0].y; h < s[1].y; h++) {
            for (var w = s[0].z; w < s[1].z; w++) {
                sum += x[start + join(vec3<u32>(d, h, w), params.input)];
            }
        }
    }
    let size = s[1] - s[0];
    result[params.first_result + i] = sum / T(size.x * size.y * size.z);
}

fn gathered(i: u32) {
    let input = volume(params.input);
    let plane = quotient(i, input);
    let at = split(i - plane * input, params.input);
    let start = params.first + plane * volume(params.output);
    let d = sharing(at.x, 0u);
    let h = sharing(at.y, 1u);
    let w = sharing(at.z, 2u);
    var sum = T(0);
    for (var o = vec3<u32>(d.x, h.x, w.x); o.x < d.y; o.x++) {
        for (o.y = h.x; o.y < h.y; o.y++) {
            for (o.z = w.x; o.z < w.y; o.z++) {
                let s = share(o);
                let size = s[1] - s[0];
                sum += x[start + join(o, params.output)] / T(size.x * size.y * size.z);
            }
        }
    }
    result[params.first_result + i] = sum;
}

fn pick(i: u32) {
    let plane = quotient(i, params.output.z);
    result[params.first_result + i] = x[params.first + plane * params.input.z + indices[params.first_index + i].x];
}

// The sum of the gradients of those results in the ranges `d`, `h` and `w` that selected element `i`.
fn put_in(i: u32, place: u32, plane: u32, d: vec2<u32>, h: vec2<u32>, w: vec2<u32>) {
    let start = plane * volume(params.output);
    var sum = T(0);
    for (var o = vec3<u32>(d.x, h.x, w.x); o.x < d.y; o.x++) {
        for (o.y = h.x; o.y < h.y; o.y++) {
            for (o.z = w.x; o.z < w.y; o.z++) {
                let j = start + join(o, params.output);
                if indices[params.first_index + j].x == place { sum += x[params.first + j]; }
            }
        }
    }
    result[params.first_result + i] = sum;
}

fn put(i: u32) {
    let input = volume(params.input);
    let plane = quotient(i, input);
    let place = i - plane * input;
    let at = split(place, params.input);
    put_in(i, place, plane, covering(at.x, 0u), covering(at.y, 1u), covering(at.z, 2u));
}

fn put_shares(i: u32) {
    let input = volume(params.input);
    let plane = quotient(i, input);
    let place = i - plane * input;
    let at = split(place, params.input);
    put_in(i, place, plane, sharing(at.x, 0u), sharing(at.y, 1u), sharing(at.z, 2u));
}
// @end

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let i = id.x + id.y * groups.x * 64u;
    if i >= params.count { return; }
    // @slot call
    average(i);
    // @end
}
