// The cooperation of a lane's threads, for a lane processed by a workgroup.

// @slot types
alias T = f32;
// @end

fn m_maximum(a: T, b: T) -> T { return select(b, a, a > b); }

// @slot together
// The stride at which a thread iterates over the lane's elements.
const STEP: u32 = 64u;
var<private> thread: u32;
var<workgroup> parts: array<T, 64>;
fn largest(v: T) -> T {
    parts[thread] = v;
    workgroupBarrier();
    for (var n = 32u; n > 0u; n >>= 1u) {
        if thread < n { parts[thread] = m_maximum(parts[thread], parts[thread + n]); }
        workgroupBarrier();
    }
    let all = parts[0];
    workgroupBarrier();
    return all;
}
fn sum(v: T) -> T {
    parts[thread] = v;
    workgroupBarrier();
    for (var n = 32u; n > 0u; n >>= 1u) {
        if thread < n { parts[thread] += parts[thread + n]; }
        workgroupBarrier();
    }
    let all = parts[0];
    workgroupBarrier();
    return all;
}
// @end
