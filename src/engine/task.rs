//! The state of one graph task: the visited nodes, their dependency counts and their input buffers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::graph::{Edge, GradFn, Grads};

/// The state of a node in a graph task.
pub struct NodeState<'g> {
    pub node: &'g GradFn,
    /// Number of edges to this node that have not delivered a gradient yet.
    pub waiting: u32,
    /// Whether a wanted gradient is reachable from this node.
    pub needed: bool,
    /// Accumulated gradients, by output.
    pub input_buffer: Grads,
}

/// A graph task: one call of backward or grad.
///
/// Note [Scratch in nodes] A graph task looks up its state of a node for every edge, so the lookup must be fast. Each
/// node has one scratch word that holds the number of the task that claimed it and the index of the node's state in
/// that task. A task claims a node by compare-and-swap and releases it at the end. Only for a node that another task
/// has claimed, on another thread or further up this thread's stack, does the task use its own hash map instead.
///
/// Nodes are borrowed from the roots, which keep all reachable nodes alive: edges never change.
pub struct GraphTask<'g> {
    pub id: u32,
    pub states: Vec<NodeState<'g>>,
    shared: HashMap<usize, u32>,
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl<'g> GraphTask<'g> {
    pub fn new() -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        // Zero marks an unclaimed node.
        let id = if id == 0 { NEXT_ID.fetch_add(1, Ordering::Relaxed) } else { id };
        GraphTask { id, states: Vec::new(), shared: HashMap::new() }
    }

    /// The index of the state of a visited node.
    pub fn find(&self, node: &GradFn) -> Option<usize> {
        if let Some(i) = node.scratch.place(self.id) {
            return Some(i as usize);
        }
        if self.shared.is_empty() {
            return None;
        }
        self.shared.get(&node.address()).map(|&i| i as usize)
    }

    /// The index of the state of a node, and whether this was the first visit.
    fn visit(&mut self, node: &'g GradFn) -> (usize, bool) {
        if let Some(i) = self.find(node) {
            return (i, false);
        }
        let i = self.states.len();
        if !node.scratch.claim(self.id, i as u32) {
            self.shared.insert(node.address(), i as u32);
        }
        let mut input_buffer = Grads::new();
        for _ in 0..node.outputs().len().max(1) {
            input_buffer.push(None);
        }
        self.states.push(NodeState { node, waiting: 0, needed: true, input_buffer });
        (i, true)
    }

    /// Visits all nodes reachable from the roots and counts dependencies.
    pub fn discover(&mut self, roots: &'g [Edge]) {
        let mut open: Vec<usize> = Vec::new();
        for e in roots {
            let (i, first) = self.visit(&e.node);
            if first {
                open.push(i);
            }
        }
        while let Some(i) = open.pop() {
            for e in self.states[i].node.edges().iter().flatten() {
                let (j, first) = self.visit(&e.node);
                self.states[j].waiting += 1;
                if first {
                    open.push(j);
                }
            }
        }
    }

    /// Marks the nodes from which a wanted gradient is reachable; others are not run.
    pub fn mark_needed(&mut self, wanted: &[Edge]) {
        for (_, i) in inputs_first(self.states.iter().map(|s| s.node)) {
            let behind = self.states[i].node.edges().iter().flatten().any(|e| {
                self.find(&e.node)
                    .is_some_and(|j| self.states[j].needed || is_wanted(wanted, self.states[j].node))
            });
            self.states[i].needed = behind;
        }
    }
}

/// Indices of nodes, sorted such that the inputs of each node precede it.
pub fn inputs_first<'a>(nodes: impl Iterator<Item = &'a GradFn>) -> Vec<(u64, usize)> {
    // Inputs have lower sequence numbers than their results; leaves have the highest, which wraps to zero.
    let mut order: Vec<_> = nodes.enumerate().map(|(i, n)| (n.seq.wrapping_add(1), i)).collect();
    order.sort_unstable();
    order
}

fn is_wanted(wanted: &[Edge], node: &GradFn) -> bool {
    wanted.iter().any(|w| w.node.same(node))
}

impl Drop for GraphTask<'_> {
    fn drop(&mut self) {
        for (i, state) in self.states.iter().enumerate() {
            state.node.scratch.release(self.id, i as u32);
        }
    }
}
