//! The state of one run: which nodes it visits, what each still waits for, and the gradients that wait for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::graph::{Edge, GradFn, Grads};

/// A node in a run.
pub struct NodeState<'g> {
    pub node: &'g GradFn,
    /// Edges of visited nodes that lead here and have not delivered yet.
    pub waiting: u32,
    /// Whether some wanted gradient lies behind this node.
    pub needed: bool,
    /// Gradients by output, as they arrive.
    pub input_buffer: Grads,
}

/// One run.
///
/// Note [Scratch in nodes]
/// A run must find its state of a node quickly. Every node has a word of scratch: the number of the run that claimed
/// it and the index of its state. A run claims a node with one compare-and-swap and gives it back when it ends. Only
/// a node that another run holds at that moment, on another thread or further down this one's stack, is looked up in
/// the run's own map instead.
///
/// The nodes are borrowed from the roots, which hold what they reach: edges never change.
pub struct GraphTask<'g> {
    pub id: u32,
    pub states: Vec<NodeState<'g>>,
    shared: HashMap<usize, u32>,
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl<'g> GraphTask<'g> {
    pub fn new() -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        // Zero means that nobody holds the node.
        let id = if id == 0 { NEXT_ID.fetch_add(1, Ordering::Relaxed) } else { id };
        GraphTask { id, states: Vec::new(), shared: HashMap::new() }
    }

    /// The index of the state of a node that was visited.
    pub fn find(&self, node: &GradFn) -> Option<usize> {
        if let Some(i) = node.scratch.place(self.id) {
            return Some(i as usize);
        }
        if self.shared.is_empty() {
            return None;
        }
        self.shared.get(&node.address()).map(|&i| i as usize)
    }

    /// The index of the state of a node, and whether this is the first visit.
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

    /// Visits everything that the roots reach and counts what each node waits for.
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

    /// Marks the nodes through which a wanted gradient can be reached; the others are not run.
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

/// The places of nodes in an order that has the inputs of each before it.
pub fn inputs_first<'a>(nodes: impl Iterator<Item = &'a GradFn>) -> Vec<(u64, usize)> {
    // Inputs were made before what is made of them; leaves, which have none, bear the highest number, and come first.
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
