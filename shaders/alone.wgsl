// What the threads that share a lane do together, where an invocation has the lane to itself.

// @slot types
alias T = f32;
// @end

// @slot together
// How far apart the elements lie that a thread goes through.
const STEP: u32 = 1u;
fn largest(v: T) -> T { return v; }
fn sum(v: T) -> T { return v; }
// @end
