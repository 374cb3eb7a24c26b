// Random numbers by Philox4x32-10, a counter-based generator: an invocation encrypts one counter and derives elements
// from its four words, bit-identical to those on the CPU. The default slots draw uniform float32.

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of blocks of four words.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Number of elements, and offset.
    n: u32,
    first: u32,
    // The key and the first counter, low words first.
    key: vec2<u32>,
    offset: vec2<u32>,
    // The parameters of the distribution.
    p: f32,
    q: f32,
    // The parameters of an integer distribution.
    low: vec2<u32>,
    span: vec2<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
fn opaque(x: f32) -> f32 { return x; }
fn m_log(x: f32) -> f32 { return x; }
// @end

// The product of two words as two words, low first, by products of half words.
fn wide_product(a: u32, b: u32) -> vec2<u32> {
    let al = a & 0xffffu;
    let ah = a >> 16u;
    let bl = b & 0xffffu;
    let bh = b >> 16u;
    let low = al * bl;
    let first = ah * bl + (low >> 16u);
    let second = al * bh + (first & 0xffffu);
    return vec2<u32>(a * b, ah * bh + (first >> 16u) + (second >> 16u));
}

fn sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn encrypt(counter: vec2<u32>) -> vec4<u32> {
    var c = vec4<u32>(counter, 0u, 0u);
    var k = params.key;
    for (var round = 0; round < 10; round++) {
        let a = wide_product(c.x, 0xd2511f53u);
        let b = wide_product(c.z, 0xcd9e8d57u);
        c = vec4<u32>(b.y ^ c.y ^ k.x, b.x, a.y ^ c.w ^ k.y, a.x);
        k += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return c;
}

// A multiple of 2^-24 in [0, 1).
fn unit(w: u32) -> f32 { return f32(w >> 8u) * 5.9604645e-8; }

// In (0, 1), with all 32 bits used near zero, where a logarithm turns them into the tail of a distribution.
fn open(w: u32) -> f32 {
    let u = (f32(w >> 1u) + 0.25) * 4.656613e-10;
    return select(0.99999994, u, u < 1.0);
}

// Uniform from p to q, to which the sum may round up.
fn uniform_of(w: u32) -> f32 {
    let v = params.p + opaque(unit(w) * opaque(params.q - params.p));
    return select(params.p, v, v < params.q);
}

fn exponential_of(w: u32) -> f32 { return -m_log(open(w)) / params.p; }

// Two independent standard normal numbers from two words, by the Box-Muller method.
fn normals_of(a: u32, b: u32) -> vec2<f32> {
    let r = sqrt(-2.0 * m_log(open(a)));
    // The angle is b·2^-32 turns: the nearest quadrant from the upper bits, the rest as a signed number.
    let t = f32(bitcast<i32>(b << 2u)) * 3.6572953e-10;
    let quadrant = (b + (1u << 29u)) >> 30u;
    let z = t * t;
    let s = t + t * z * ((-0.00019516978 * z + 0.008332176) * z - 0.16666655);
    let c = (1.0 - 0.5 * z) + z * z * ((2.4438092e-5 * z - 0.0013887364) * z + 0.041666646);
    let odd = (quadrant & 1u) == 1u;
    let x = select(c, s, odd);
    let y = select(s, c, odd);
    let fx = bitcast<f32>(bitcast<u32>(x) ^ (((quadrant + 1u) & 2u) << 30u));
    let fy = bitcast<f32>(bitcast<u32>(y) ^ ((quadrant & 2u) << 30u));
    return vec2<f32>(r * fx, r * fy);
}

// The upper half of 64 random bits times a span of at most 2^32, plus the lower bound.
fn integer_of(a: u32, b: u32) -> vec2<u32> {
    let high = vec2<u32>(wide_product(a, params.span.x).y + select(0u, a, params.span.y == 1u), 0u);
    let all = sum(wide_product(b, params.span.x), high);
    return sum(params.low, vec2<u32>(all.y + select(0u, b, params.span.y == 1u), 0u));
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    runtime_zero = params.zero;
    let block = id.x + id.y * groups.x * 64u;
    if block >= params.count { return; }
    let w = encrypt(sum(params.offset, vec2<u32>(block, 0u)));
    // @slot store
    let v = vec4<f32>(uniform_of(w.x), uniform_of(w.y), uniform_of(w.z), uniform_of(w.w));
    for (var i = 0u; i < 4u && block * 4u + i < params.n; i++) { result[params.first + block * 4u + i] = v[i]; }
    // @end
}
