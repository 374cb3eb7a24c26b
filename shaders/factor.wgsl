// The frame of factorizations of matrices, which are used up: elimination.wgsl, orthogonal.wgsl and svd.wgsl have the
// kernels. As it stands this does nothing.
//
// Note [Who factors a matrix]
// An invocation has a matrix, or a workgroup of SIDE by SIDE threads, which meet in `sync`. Either does all of it in one
// launch; or each step is a few launches, in which many share the rows and columns of a matrix. Whoever branches together
// has read the same, which nobody writes before the next `sync`. No launch may loop for long: Note [Long loops].

// @slot types
alias T = f32;
// @end

struct Params {
    // Matrices.
    count: u32,
    // Always 0; see the prelude.
    zero: u32,
    // Where the matrices and their results begin; how many elements lie from one to the next, and of what is kept.
    first: u32,
    first_result: u32,
    size: u32,
    each: u32,
    keeps: u32,
    // How many share the rows of a matrix, and how many the columns; and the step of a launch that does one.
    down: u32,
    across: u32,
    step: u32,
    // Columns of a matrix, and rows where it is not square; columns of the right side, which stands where the result will.
    n: u32,
    m: u32,
    k: u32,
    // Of a triangle: whether it is the upper one, and whether its diagonal is taken for ones.
    upper: u32,
    unit: u32,
    // Whether a zero pivot is taken for a tiny one.
    lenient: u32,
    // How many left and right vectors are wanted; of QR, columns of Q and rows of R.
    left: u32,
    right: u32,
    // How many rotations a launch makes, and where they begin.
    turns: u32,
    p: u32,
    q: u32,
    // The least relative size that is no rounding, and the tiny pivot.
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

// Which of those who share the matrix this is; which of its threads, and the place in their square.
var<private> piece: u32;
var<private> thread: u32;
var<private> x: u32;
var<private> y: u32;
// The first row and column that are this thread's, and how many come before its next.
var<private> row_0: u32;
var<private> column_0: u32;
var<private> rows_on: u32;
var<private> columns_on: u32;
// Where the matrix, its result and what is kept of it begin.
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
    // All threads of a matrix return, or none.
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
