//! Where the arithmetic happens: a driver per kernel family, on memory and layouts, knowing nothing of graphs.

pub mod cpu;
