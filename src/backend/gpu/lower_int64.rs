//! Emulation of int64 on adapters without it: shaders are rewritten to compute with pairs of words.
//!
//! # Note [Lowering int64]
//!
//! Kernels are written once, in WGSL that uses `i64`. WGSL has no operator overloading, so a user-defined type cannot
//! replace `i64` in the text; but naga's representation of a parsed module gives the type of every expression. There
//! the type `i64` is replaced by `vec2<u32>`, which has the same size and alignment, so buffers, parameters and
//! structs keep their layout. Constants become pairs; loads, stores, selections and bitwise operations are unchanged;
//! arithmetic, comparisons, shifts and conversions become calls of functions in `shaders/wide.wgsl`. A vector of int64
//! becomes an array of pairs, whose elements are computed one by one.
//!
//! In naga a call is a statement, and expressions evaluated before it must be emitted before it. So each emit range is
//! split where one of its expressions becomes a call.

use std::collections::HashMap;
use std::num::NonZeroU32;

use wgpu::naga::front::{Typifier, wgsl};
use wgpu::naga::proc::ResolveContext;
use wgpu::naga::{
    Arena, ArraySize, AtomicFunction, BinaryOperator, Block, Constant, Expression, Function, Handle, Literal,
    MathFunction, Module, Scalar, ScalarKind, Span, Statement, SwitchCase, Type, TypeInner, UnaryOperator,
    VectorSize,
};

const WIDE: &str = crate::formula::shader_text!("wide.wgsl");

/// An error message on failure.
type Result<T> = std::result::Result<T, String>;

/// Whether a shader uses int64.
pub fn is_wide(source: &str) -> bool {
    source.contains("i64")
}

/// The module of a shader, rewritten without int64.
///
/// # Errors
/// If the WGSL is invalid, or uses int64 in ways that no kernel does, such as atomics or conversions of vectors.
pub fn lower(source: &str) -> Result<Module> {
    // Naga requires functions to be declared before their callers.
    let source = format!("{WIDE}{source}");
    let mut module = wgsl::parse_str(&source).map_err(|e| e.emit_to_string(&source))?;
    if !module.overrides.is_empty() {
        return Err("its module has overrides".into());
    }
    let types_of = |f: &Function| kinds(&module, f);
    let functions: Vec<_> = module.functions.iter().map(|(_, f)| types_of(f)).collect::<Result<_>>()?;
    let entries: Vec<_> = module.entry_points.iter().map(|e| types_of(&e.function)).collect::<Result<_>>()?;
    let mut lowering = Lowering {
        types: replace_types(&mut module)?,
        functions: module.functions.iter().filter_map(|(h, f)| Some((f.name.clone()?, h))).collect(),
        constants: std::mem::take(&mut module.constants),
        globals: Arena::new(),
        pairs: HashMap::new(),
    };
    let map = lowering.constants(&module.global_expressions)?;
    module.global_variables.iter_mut().for_each(|(_, v)| v.init = v.init.map(|h| map[h.index()]));
    for (f, types) in module.functions.iter_mut().map(|(_, f)| f).zip(&functions) {
        lowering.function(f, types)?;
    }
    for (entry, types) in module.entry_points.iter_mut().zip(&entries) {
        lowering.function(&mut entry.function, types)?;
    }
    module.constants = lowering.constants;
    module.global_expressions = lowering.globals;
    Ok(module)
}

/// The type of an expression, as far as relevant here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number(Scalar),
    /// A vector of int64.
    Wides(VectorSize),
    Other,
}

const WIDE_NUMBER: Kind = Kind::Number(Scalar::I64);

/// The types of the expressions of a function.
fn kinds(module: &Module, f: &Function) -> Result<Vec<Kind>> {
    let context = ResolveContext::with_locals(module, &f.local_variables, &f.arguments);
    let mut typifier = Typifier::new();
    f.expressions
        .iter()
        .map(|(h, _)| {
            typifier.grow(h, &f.expressions, &context).map_err(|e| e.to_string())?;
            Ok(match *typifier.get(h, &module.types) {
                TypeInner::Scalar(s) => Kind::Number(s),
                TypeInner::Vector { size, scalar: Scalar::I64 } => Kind::Wides(size),
                _ => Kind::Other,
            })
        })
        .collect()
}

/// The replacement types of int64.
#[derive(Clone, Copy)]
struct Types {
    pair: Handle<Type>,
    /// For vectors of two and of four, if they occur.
    vectors: [Option<Handle<Type>>; 2],
}

/// Replaces int64 by pairs in a module's types, and vectors of int64 by arrays of pairs.
fn replace_types(module: &mut Module) -> Result<Types> {
    let inner = TypeInner::Vector { size: VectorSize::Bi, scalar: Scalar::U32 };
    // It precedes all types of the shader, since the functions of `wide.wgsl` use it.
    let pair = module.types.insert(Type { name: None, inner: inner.clone() }, Span::UNDEFINED);
    let mut replaced = Vec::new();
    let mut vectors = [None; 2];
    for (h, ty) in module.types.iter() {
        let inner = match ty.inner {
            TypeInner::Scalar(Scalar::I64) => inner.clone(),
            // A vec3 is padded to four elements, while an array of three pairs would not be.
            TypeInner::Vector { size: size @ (VectorSize::Bi | VectorSize::Quad), scalar: Scalar::I64 } => {
                vectors[(size == VectorSize::Quad) as usize] = Some(h);
                let size = NonZeroU32::new(size as u32).map_or(ArraySize::Dynamic, ArraySize::Constant);
                TypeInner::Array { base: pair, size, stride: 8 }
            }
            TypeInner::Vector { scalar: Scalar::I64, .. } | TypeInner::Atomic(Scalar::I64) => {
                return Err("its shader has atomics or vectors of three of them".into());
            }
            _ => continue,
        };
        replaced.push((h, inner));
    }
    for (i, (h, inner)) in replaced.into_iter().enumerate() {
        // A unique name, since the type arena merges equal types.
        module.types.replace(h, Type { name: Some(format!("wide_{i}")), inner });
    }
    Ok(Types { pair, vectors })
}

struct Lowering {
    types: Types,
    functions: HashMap<String, Handle<Function>>,
    constants: Arena<Constant>,
    globals: Arena<Expression>,
    /// The constants created for literals.
    pairs: HashMap<i64, Handle<Constant>>,
}

impl Lowering {
    /// Rewrites the global expressions, which in naga's output are only literals and compositions of them; returns the
    /// new handle of each.
    fn constants(&mut self, old: &Arena<Expression>) -> Result<Vec<Handle<Expression>>> {
        let mut map: Vec<Handle<Expression>> = Vec::new();
        for (_, e) in old.iter() {
            let new = match e {
                Expression::Literal(Literal::I64(v)) => self.composed(*v),
                _ => {
                    let mut e = e.clone();
                    operands(&mut e, &mut |h| {
                        *h = map[h.index()];
                        Ok(())
                    })?;
                    self.globals.append(e, Span::UNDEFINED)
                }
            };
            map.push(new);
        }
        self.constants.iter_mut().for_each(|(_, c)| c.init = map[c.init.index()]);
        Ok(map)
    }

    fn composed(&mut self, v: i64) -> Handle<Expression> {
        let words = [v as u32, (v >> 32) as u32];
        let components = words
            .map(|w| self.globals.append(Expression::Literal(Literal::U32(w)), Span::UNDEFINED))
            .to_vec();
        self.globals.append(Expression::Compose { ty: self.types.pair, components }, Span::UNDEFINED)
    }

    /// A literal as a constant, which every function can use.
    fn constant(&mut self, v: i64) -> Handle<Constant> {
        if let Some(&known) = self.pairs.get(&v) {
            return known;
        }
        let init = self.composed(v);
        let made = self.constants.append(Constant { name: None, ty: self.types.pair, init }, Span::UNDEFINED);
        self.pairs.insert(v, made);
        made
    }

    fn function(&mut self, f: &mut Function, types: &[Kind]) -> Result<()> {
        let old = std::mem::take(&mut f.expressions);
        let body = std::mem::take(&mut f.body);
        let mut emitted = vec![false; old.len()];
        mark(&body, &mut emitted);
        let map = vec![None; old.len()];
        let mut rewrite =
            Rewrite { all: self, old: &old, types, new: Arena::new(), map, emitted: 0, out: Block::new() };
        // Expressions that need no emit: literals, variables, arguments. Results of statements are created with those.
        for (h, e) in old.iter().filter(|(h, _)| !emitted[h.index()]) {
            if !matches!(e, Expression::CallResult(_) | Expression::AtomicResult { .. }) {
                rewrite.expression(h)?;
            }
        }
        rewrite.emitted = rewrite.new.len();
        let body = rewrite.block(&body)?;
        for (_, v) in f.local_variables.iter_mut() {
            v.init = v.init.map(|h| rewrite.get(h)).transpose()?;
        }
        f.expressions = rewrite.new;
        f.body = body;
        f.named_expressions.clear();
        Ok(())
    }
}

/// Marks the expressions that are emitted by statements.
fn mark(block: &Block, emitted: &mut [bool]) {
    for s in block.iter() {
        match s {
            Statement::Emit(range) => range.clone().for_each(|h| emitted[h.index()] = true),
            Statement::Block(b) => mark(b, emitted),
            Statement::If { accept: a, reject: b, .. } | Statement::Loop { body: a, continuing: b, .. } => {
                mark(a, emitted);
                mark(b, emitted);
            }
            Statement::Switch { cases, .. } => cases.iter().for_each(|c| mark(&c.body, emitted)),
            _ => {}
        }
    }
}

/// The state of rewriting one function.
struct Rewrite<'a> {
    all: &'a mut Lowering,
    old: &'a Arena<Expression>,
    /// The types of the old expressions.
    types: &'a [Kind],
    new: Arena<Expression>,
    /// The new handle of each old expression.
    map: Vec<Option<Handle<Expression>>>,
    /// How many of the new expressions are emitted or need no emit.
    emitted: usize,
    /// The statements of the current block.
    out: Block,
}

impl Rewrite<'_> {
    fn get(&self, h: Handle<Expression>) -> Result<Handle<Expression>> {
        self.map[h.index()].ok_or_else(|| "an expression of its shader is used before it is evaluated".into())
    }

    fn is_wide(&self, h: Handle<Expression>) -> bool {
        self.types[h.index()] == WIDE_NUMBER
    }

    fn is_vector(&self, h: Handle<Expression>) -> bool {
        matches!(self.types[h.index()], Kind::Wides(_))
    }

    fn refused(&self, h: Handle<Expression>) -> String {
        format!("its shader has the expression {:?} of them", self.old[h])
    }

    fn append(&mut self, e: Expression) -> Handle<Expression> {
        self.new.append(e, Span::UNDEFINED)
    }

    fn push(&mut self, s: Statement) {
        self.out.push(s, Span::UNDEFINED);
    }

    /// Emits the expressions appended since the last emit.
    fn flush(&mut self) {
        if self.new.len() > self.emitted {
            self.push(Statement::Emit(self.new.range_from(self.emitted)));
            self.emitted = self.new.len();
        }
    }

    /// Creates the result expression of a statement that is pushed next.
    fn result(&mut self, e: Expression) -> Handle<Expression> {
        self.flush();
        let made = self.append(e);
        self.emitted = self.new.len();
        made
    }

    fn call(&mut self, name: &str, arguments: &[Handle<Expression>]) -> Result<Handle<Expression>> {
        let Some(&function) = self.all.functions.get(name) else { return Err(format!("there is no {name}")) };
        let result = self.result(Expression::CallResult(function));
        self.push(Statement::Call { function, arguments: arguments.to_vec(), result: Some(result) });
        Ok(result)
    }

    /// Appends the replacement of an old expression.
    fn expression(&mut self, h: Handle<Expression>) -> Result<()> {
        let new = match self.old[h] {
            Expression::Literal(Literal::I64(v)) => {
                let constant = self.all.constant(v);
                self.append(Expression::Constant(constant))
            }
            Expression::Unary { op: UnaryOperator::Negate, expr } if self.is_wide(expr) => {
                let x = self.get(expr)?;
                self.call("wide_negate", &[x])?
            }
            Expression::Binary { op, left, right } => {
                let (a, b) = (self.get(left)?, self.get(right)?);
                match (self.types[left.index()], self.types[right.index()]) {
                    (WIDE_NUMBER, Kind::Number(_)) => self.binary(op, a, b)?,
                    (Kind::Wides(n), _) => self.lanes(op, n, (a, true), (b, self.is_vector(right)))?,
                    (_, Kind::Wides(n)) => self.lanes(op, n, (a, false), (b, true))?,
                    _ => self.append(Expression::Binary { op, left: a, right: b }),
                }
            }
            Expression::Splat { size, value } if self.is_wide(value) => {
                let x = self.get(value)?;
                self.vector(size, vec![x; size as usize])?
            }
            Expression::Math { fun: MathFunction::Abs, arg, .. } if self.is_wide(arg) => {
                let x = self.get(arg)?;
                self.call("wide_magnitude", &[x])?
            }
            Expression::Math { arg: x, .. } if self.is_wide(x) || self.is_vector(x) => {
                return Err(self.refused(h));
            }
            Expression::Select { accept: x, .. }
            | Expression::Unary { expr: x, .. }
            | Expression::As { expr: x, .. }
            | Expression::Swizzle { vector: x, .. }
                if self.is_vector(x) =>
            {
                return Err(self.refused(h));
            }
            Expression::As { expr, kind, convert } => self.conversion(expr, kind, convert)?,
            _ => self.same(h)?,
        };
        self.map[h.index()] = Some(new);
        Ok(())
    }

    /// Copies an expression with its operands replaced.
    fn same(&mut self, h: Handle<Expression>) -> Result<Handle<Expression>> {
        let mut e = self.old[h].clone();
        operands(&mut e, &mut |h| {
            *h = self.get(*h)?;
            Ok(())
        })?;
        Ok(self.append(e))
    }

    /// A vector. Array types are equal only if they have the same handle, so the handle that the shader uses is taken.
    fn vector(
        &mut self,
        size: VectorSize,
        components: Vec<Handle<Expression>>,
    ) -> Result<Handle<Expression>> {
        match self.all.types.vectors[(size == VectorSize::Quad) as usize] {
            Some(ty) => Ok(self.append(Expression::Compose { ty, components })),
            None => Err("its shader has vectors of them that no variable holds".into()),
        }
    }

    /// An operation on vectors, or on a vector and a number; `is_vector` tells which operands are vectors.
    fn lanes(
        &mut self,
        op: BinaryOperator,
        size: VectorSize,
        a: (Handle<Expression>, bool),
        b: (Handle<Expression>, bool),
    ) -> Result<Handle<Expression>> {
        let mut results = Vec::new();
        for index in 0..size as u32 {
            let [a, b] = [a, b].map(|(base, is_vector)| match is_vector {
                true => self.append(Expression::AccessIndex { base, index }),
                false => base,
            });
            results.push(self.binary(op, a, b)?);
        }
        self.vector(size, results)
    }

    /// An operation on two numbers.
    fn binary(
        &mut self,
        op: BinaryOperator,
        a: Handle<Expression>,
        b: Handle<Expression>,
    ) -> Result<Handle<Expression>> {
        use BinaryOperator as Op;
        // Some comparisons are expressed by another one with exchanged operands or a negated result.
        let (name, operands, opposite) = match op {
            Op::Add => ("wide_add", [a, b], false),
            Op::Subtract => ("wide_subtract", [a, b], false),
            Op::Multiply => ("wide_multiply", [a, b], false),
            Op::Divide => ("wide_divide", [a, b], false),
            Op::Modulo => ("wide_modulo", [a, b], false),
            Op::ShiftLeft => ("wide_shift_left", [a, b], false),
            Op::ShiftRight => ("wide_shift_right", [a, b], false),
            Op::Equal => ("wide_equal", [a, b], false),
            Op::NotEqual => ("wide_equal", [a, b], true),
            Op::Less => ("wide_less", [a, b], false),
            Op::GreaterEqual => ("wide_less", [a, b], true),
            Op::Greater => ("wide_less", [b, a], false),
            Op::LessEqual => ("wide_less", [b, a], true),
            Op::And | Op::ExclusiveOr | Op::InclusiveOr | Op::LogicalAnd | Op::LogicalOr => {
                return Ok(self.append(Expression::Binary { op, left: a, right: b }));
            }
        };
        let found = self.call(name, &operands)?;
        if !opposite {
            return Ok(found);
        }
        Ok(self.append(Expression::Unary { op: UnaryOperator::LogicalNot, expr: found }))
    }

    fn conversion(
        &mut self,
        expr: Handle<Expression>,
        kind: ScalarKind,
        convert: Option<u8>,
    ) -> Result<Handle<Expression>> {
        let x = self.get(expr)?;
        let (from, to) = (self.is_wide(expr), kind == ScalarKind::Sint && convert == Some(8));
        match (from, to) {
            (false, false) => Ok(self.append(Expression::As { expr: x, kind, convert })),
            (true, true) => Ok(x),
            (false, true) => match self.types[expr.index()] {
                Kind::Number(Scalar::I32) => self.call("wide_from_i32", &[x]),
                Kind::Number(Scalar::U32) => self.call("wide_from_u32", &[x]),
                Kind::Number(Scalar::F32) => self.call("wide_from_f32", &[x]),
                Kind::Number(Scalar::BOOL) => self.call("wide_from_bool", &[x]),
                _ => Err("its shader makes them of other types".into()),
            },
            (true, false) => match (kind, convert) {
                (ScalarKind::Float, Some(4)) => self.call("wide_to_f32", &[x]),
                (ScalarKind::Bool, _) => self.call("wide_to_bool", &[x]),
                (ScalarKind::Sint | ScalarKind::Uint, Some(4)) => {
                    let low = self.append(Expression::AccessIndex { base: x, index: 0 });
                    Ok(self.append(Expression::As { expr: low, kind, convert: None }))
                }
                _ => Err("its shader looks at their bits".into()),
            },
        }
    }

    fn block(&mut self, old: &Block) -> Result<Block> {
        let outer = std::mem::take(&mut self.out);
        for s in old.iter() {
            self.statement(s)?;
        }
        Ok(std::mem::replace(&mut self.out, outer))
    }

    fn statement(&mut self, s: &Statement) -> Result<()> {
        let new = match s {
            Statement::Emit(range) => {
                range.clone().try_for_each(|h| self.expression(h))?;
                self.flush();
                return Ok(());
            }
            Statement::Block(b) => Statement::Block(self.block(b)?),
            Statement::If { condition, accept, reject } => Statement::If {
                condition: self.get(*condition)?,
                accept: self.block(accept)?,
                reject: self.block(reject)?,
            },
            Statement::Switch { selector, cases } => {
                let case = |c: &SwitchCase| Ok(SwitchCase { body: self.block(&c.body)?, ..c.clone() });
                let cases = cases.iter().map(case).collect::<Result<_>>()?;
                Statement::Switch { selector: self.get(*selector)?, cases }
            }
            Statement::Loop { body, continuing, break_if } => Statement::Loop {
                body: self.block(body)?,
                continuing: self.block(continuing)?,
                break_if: break_if.map(|h| self.get(h)).transpose()?,
            },
            Statement::Return { value } => {
                Statement::Return { value: value.map(|h| self.get(h)).transpose()? }
            }
            Statement::Store { pointer, value } => {
                Statement::Store { pointer: self.get(*pointer)?, value: self.get(*value)? }
            }
            Statement::Atomic { pointer, fun, value, result } => {
                let (pointer, value) = (self.get(*pointer)?, self.get(*value)?);
                let fun = match *fun {
                    AtomicFunction::Exchange { compare: Some(h) } => {
                        AtomicFunction::Exchange { compare: Some(self.get(h)?) }
                    }
                    other => other,
                };
                let result = result.map(|h| self.result_of(h));
                Statement::Atomic { pointer, fun, value, result }
            }
            Statement::Call { function, arguments, result } => {
                let arguments = arguments.iter().map(|h| self.get(*h)).collect::<Result<_>>()?;
                let result = result.map(|h| self.result_of(h));
                Statement::Call { function: *function, arguments, result }
            }
            Statement::Break
            | Statement::Continue
            | Statement::Kill
            | Statement::ControlBarrier(_)
            | Statement::MemoryBarrier(_) => s.clone(),
            other => return Err(format!("its shader has the statement {other:?}")),
        };
        self.push(new);
        Ok(())
    }

    /// Creates the result expression of a statement that replaces an old one.
    fn result_of(&mut self, old: Handle<Expression>) -> Handle<Expression> {
        let made = self.result(self.old[old].clone());
        self.map[old.index()] = Some(made);
        made
    }
}

/// Calls `f` with every operand of an expression.
fn operands(e: &mut Expression, f: &mut dyn FnMut(&mut Handle<Expression>) -> Result<()>) -> Result<()> {
    match e {
        Expression::Literal(_)
        | Expression::Constant(_)
        | Expression::ZeroValue(_)
        | Expression::FunctionArgument(_)
        | Expression::GlobalVariable(_)
        | Expression::LocalVariable(_) => Ok(()),
        Expression::Compose { components, .. } => components.iter_mut().try_for_each(f),
        Expression::Access { base, index } => [base, index].into_iter().try_for_each(f),
        Expression::AccessIndex { base: x, .. }
        | Expression::Splat { value: x, .. }
        | Expression::Swizzle { vector: x, .. }
        | Expression::Load { pointer: x }
        | Expression::Unary { expr: x, .. }
        | Expression::Relational { argument: x, .. }
        | Expression::As { expr: x, .. }
        | Expression::ArrayLength(x) => f(x),
        Expression::Binary { left, right, .. } => [left, right].into_iter().try_for_each(f),
        Expression::Select { condition, accept, reject } => {
            [condition, accept, reject].into_iter().try_for_each(f)
        }
        Expression::Math { arg, arg1, arg2, arg3, .. } => {
            f(arg)?;
            [arg1, arg2, arg3].into_iter().flatten().try_for_each(f)
        }
        other => Err(format!("its shader has the expression {other:?}")),
    }
}
