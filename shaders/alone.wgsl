// The cooperation of a lane's threads, for a lane processed by a single invocation.

// @slot types
alias T = f32;
// @end

// @slot together
// The stride at which a thread iterates over the lane's elements.
const STEP: u32 = 1u;
fn largest(v: T) -> T { return v; }
fn sum(v: T) -> T { return v; }
// @end
