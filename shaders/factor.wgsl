// The template of matrix factorizations, which overwrite the matrices; elimination.wgsl, orthogonal.wgsl and svd.wgsl
// contain the kernels. The default slots do nothing.
//
// Note [Who factors a matrix] A matrix is processed by one invocation, or by a workgroup of SIDE by SIDE threads,
// which synchronize by `sync`. Both either do the whole factorization in one launch, or each step takes a few launches
// in which several workers share the rows and columns of a matrix. Threads that branch uniformly have read the same
// value, which nobody writes before the next `sync`. No launch may loop for long: Note [Long loops].

// @slot types
alias T = f32;
// @end

struct Params {
    // Number of matrices.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Offsets of the matrices and their results; elements per matrix, per result and per kept state.
    first: u32,
    first_result: u32,
    size: u32,
    each: u32,
    keeps: u32,
    // Number of workers that share the rows, and the columns, of a matrix; the step of a single-step launch.
    down: u32,
    across: u32,
    step: u32,
    // Columns of a matrix, rows if it is not square; columns of the right-hand side, which is stored in the result.
    n: u32,
    m: u32,
    k: u32,
    // For a triangle: whether it is upper, and whether its diagonal is taken as ones.
    upper: u32,
    unit: u32,
    // Whether a zero pivot is replaced by a tiny one.
    lenient: u32,
    // Numbers of left and right vectors to compute; for QR, columns of Q and rows of R.
    left: u32,
    right: u32,
    // Number of rotations per launch, and the first pair.
    turns: u32,
    p: u32,
    q: u32,
    // The relative rounding error, also used as the tiny pivot.
    epsilon: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
// @slot bindings
@group(0) @binding(1) var<storage, read_write> result: array<f32>;
@group(0) @binding(2) var<storage, read_write> w: array<f32>;
@group(0) @binding(3) var<storage, read_write> kept: array<f32>;
// @end

var<private> runtime_zero: u32;
// @slot prelude
// @end

// @slot together
const SIDE: u32 = 1u;
const GROUP: u32 = 64u;
fn sync() {}
fn sum(v: T, from_thread: u32, stride: u32) -> T { return v; }
fn largest_of(v: T, from_thread: u32, stride: u32) -> T { return v; }
// @end

const STEP: u32 = SIDE * SIDE;

// The index of this worker among those of the matrix; the index of its thread, and the thread's coordinates.
var<private> piece: u32;
var<private> thread: u32;
var<private> x: u32;
var<private> y: u32;
// This thread's first row and column, and its strides over rows and columns.
var<private> row_0: u32;
var<private> column_0: u32;
var<private> rows_on: u32;
var<private> columns_on: u32;
// Offsets of the matrix, its result and its kept state.
var<private> a: u32;
var<private> b: u32;
var<private> keep: u32;
var<private> step: u32;

fn largest(v: T) -> T { return largest_of(largest_of(v, y * SIDE, 1u), x, SIDE); }
fn is_first() -> bool { return row_0 + column_0 == 0u; }

// @slot kernels
// @end

@compute @workgroup_size(GROUP)
fn main(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    runtime_zero = params.zero;
    let together = SIDE > 1u;
    let place = select(id.x + id.y * groups.x * GROUP, group.x + group.y * groups.x, together);
    let pieces = params.down * params.across;
    let matrix = place / pieces;
    // All threads of a matrix return together.
    if matrix >= params.count { return; }
    piece = place - matrix * pieces;
    thread = select(0u, local, together);
    x = thread & (SIDE - 1u);
    y = thread / SIDE;
    row_0 = piece / params.across * SIDE + y;
    column_0 = (piece - piece / params.across * params.across) * SIDE + x;
    rows_on = SIDE * params.down;
    columns_on = SIDE * params.across;
    a = params.first + matrix * params.size;
    b = params.first_result + matrix * params.each;
    keep = matrix * params.keeps;
    step = params.step;
    // @slot body
    // @end
}
