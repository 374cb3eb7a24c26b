//! Validates all shaders without a GPU, using naga: each pointwise operation, forward and derivatives, in each dtype.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use naga::valid::{Capabilities, ValidationFlags, Validator};
use rgrad::DType;
#[cfg(feature = "gpu")]
use rgrad::backend::gpu::lower_int64::{is_wide, lower};
use rgrad::backend::pointwise::compute_type;
use rgrad::formula::blocks::Blocks;
use rgrad::formula::record::{Step, record, record_all};
use rgrad::formula::template::{coefficients, content, shader};
use rgrad::formula::wgsl::{Form, Input, Pointwise};
use rgrad::formula::{Arith, Formula, Num};
use rgrad::ops::pointwise::{Class, PointwiseOp};
use rgrad::ops::rows::ROWS;

/// Parses and validates a shader; the error is naga's message with the line and a caret.
fn check(source: &str, capabilities: Capabilities) -> Result<naga::Module, String> {
    let module = naga::front::wgsl::parse_str(source).map_err(|e| e.emit_to_string(source))?;
    Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .map_err(|e| e.emit_to_string(source))?;
    Ok(module)
}

/// The minimum capabilities of a device: 32-bit dtypes need only WebGPU.
fn needed(dtypes: impl IntoIterator<Item = DType>) -> Capabilities {
    dtypes.into_iter().fold(Capabilities::empty(), |c, d| match d {
        DType::I64 => c | Capabilities::SHADER_INT64,
        // Its bits are also read as a 64-bit integer.
        DType::F64 => c | Capabilities::FLOAT64 | Capabilities::SHADER_INT64,
        _ => c,
    })
}

const FORMS: [Form; 12] = [
    Form::Dense,
    Form::Quads,
    Form::Rows(2, 0),
    Form::Rows(3, 1),
    Form::Strided(1),
    Form::Strided(6),
    Form::Scattered(3),
    Form::Blocks(Blocks { rank: 0, run: 16, rows: 1, splat: 0, once: 0, level: 1 }),
    Form::Blocks(Blocks { rank: 0, run: 8, rows: 1, splat: 0, once: 0, level: 0 }),
    Form::Blocks(Blocks { rank: 2, run: 8, rows: 4, splat: 0, once: 1, level: 0 }),
    Form::Blocks(Blocks { rank: 3, run: 8, rows: 4, splat: 1, once: 0, level: 0 }),
    Form::Blocks(Blocks { rank: 2, run: 8, rows: 4, splat: 0, once: 0, level: 1 }),
];

/// A formula of an operation in a dtype.
struct Case {
    what: String,
    formula: Formula,
    inputs: Vec<Input>,
    params: usize,
    compute: DType,
    result: DType,
    form: Form,
}

impl Case {
    fn render(&self) -> Result<String, String> {
        Pointwise {
            formula: &self.formula,
            inputs: &self.inputs,
            params: self.params,
            compute: self.compute,
            results: &[self.result],
            form: self.form,
        }
        .render()
    }

    fn capabilities(&self) -> Capabilities {
        let stored =
            self.inputs.iter().filter_map(|i| if let Input::Tensor(d) = i { Some(*d) } else { None });
        let words = self.form.blocks().map(|_| DType::I64);
        needed(stored.chain([self.compute, self.result]).chain(words))
    }
}

/// The compute dtype and the result dtype of an operation; None if it does not accept `dtype`.
fn types(row: &PointwiseOp, dtype: DType) -> Option<(DType, DType)> {
    let common = match row.class {
        Class::Float if !dtype.is_float() => DType::F32,
        Class::Bits if dtype.is_float() => return None,
        _ => dtype,
    };
    Some((compute_type(common), if row.class == Class::Truth { DType::Bool } else { common }))
}

/// All operations × dtypes × {forward, each derivative}; binary operations also with a number as the last operand.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for row in ROWS.iter() {
        for dtype in DType::COMMON {
            let Some((compute, result)) = types(row, dtype) else { continue };
            let n = row.inputs.len();
            let mut add = |what: String, formula, inputs| {
                cases.push(Case {
                    what,
                    formula,
                    inputs,
                    params: row.params.len(),
                    compute,
                    result,
                    form: Form::Dense,
                });
            };
            let name = format!("{} of {}", row.name, dtype.name());
            let tensors = vec![Input::Tensor(dtype); n];
            if n > 1 {
                let mut inputs = tensors.clone();
                inputs[n - 1] = Input::Number;
                add(format!("{name} and a number"), (row.steps)(), inputs);
            }
            add(name.clone(), (row.steps)(), tensors);
            for k in 0..if dtype.is_float() { row.grads.len() } else { 0 } {
                let formula = (row.grad_steps)(k);
                add(format!("{name}, derivative {k}"), formula, vec![Input::Tensor(dtype); n + 2]);
            }
        }
    }
    cases
}

#[test]
fn every_row_in_every_dtype_is_a_valid_shader() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for case in cases() {
        let source = case.render().unwrap();
        if seen.insert(source.clone())
            && let Err(message) = check(&source, case.capabilities())
        {
            wrong.push(format!("{}:\n{message}", case.what));
        }
    }
    assert!(wrong.is_empty(), "{} shaders are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen.len() > ROWS.len() * DType::COMMON.len() / 2, "only {} shaders were rendered", seen.len());
}

#[test]
fn every_row_in_every_dtype_has_a_shader() {
    for case in cases() {
        assert_eq!(case.render().err(), None, "{}", case.what);
    }
}

#[cfg(feature = "gpu")]
#[test]
fn every_shader_of_int64_is_valid_for_a_device_without_it_once_it_is_lowered() {
    let validate = |what: &str, source: &str| {
        let module = lower(source).unwrap_or_else(|why| panic!("{what}: {why}"));
        if let Err(e) = Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module) {
            panic!("{what}: {e:?}");
        }
    };
    let mut lowered = BTreeSet::new();
    for case in cases() {
        let source = case.render().unwrap();
        if !case.capabilities().contains(Capabilities::FLOAT64)
            && is_wide(&source)
            && lowered.insert(source.clone())
        {
            validate(&case.what, &source);
        }
    }
    assert!(lowered.len() > 50, "only {} shaders were lowered", lowered.len());
    // Lowering keeps modules without int64 valid.
    for (path, source) in modules() {
        if !path.ends_with("prelude_f64.wgsl") && !path.ends_with("wide.wgsl") {
            validate(&path.display().to_string(), &source);
        }
    }
}

#[cfg(feature = "gpu")]
#[test]
fn vectors_of_int64_become_arrays_of_one_type() {
    let source = "const LIMIT: i64 = 1099511627776;
var<private> step: i64 = LIMIT;
var<private> first: u32 = 3u;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<i64>>;
@compute @workgroup_size(1)
fn main() {
    var c = vec4<i64>();
    let x = y[1];
    for (var k = 0u; k < 3u; k++) { c += y[0].z * x; }
    y[first] = c - vec4<i64>(i64(k()), 2, x.x, step) + vec4<i64>(x.y);
}
fn k() -> u32 { return 1u; }
";
    let module = lower(source).unwrap();
    Validator::new(ValidationFlags::all(), Capabilities::empty()).validate(&module).unwrap();
    let is_array_of_four = |t: &&naga::Type| matches!(t.inner, naga::TypeInner::Array { size: naga::ArraySize::Constant(n), .. } if n.get() == 4);
    assert_eq!(module.types.iter().map(|(_, t)| t).filter(is_array_of_four).count(), 1);
}

#[cfg(feature = "gpu")]
#[test]
fn vectors_of_three_int64_are_refused_with_the_reason() {
    let told = lower("fn f(x: vec3<i64>) -> vec3<i64> { return x; }").unwrap_err();
    assert!(told.contains("vectors of three"), "{told}");
}

#[test]
fn every_dtype_is_loaded_and_stored_as_every_other() {
    let formula = Formula::new(&[Step::Arg(0)], &[0]).unwrap();
    let computes = [DType::F32, DType::F64, DType::I32, DType::I64];
    for from in DType::COMMON {
        for to in DType::COMMON {
            for (compute, form) in computes.into_iter().flat_map(|c| FORMS.map(|f| (c, f))) {
                if matches!(form, Form::Quads | Form::Rows(..)) && (from.size() != 4 || to.size() != 4) {
                    continue;
                }
                let inputs = vec![Input::Tensor(from)];
                let what = format!("{from} to {to} through {compute}, {form:?}");
                let case =
                    Case { what, formula: formula.clone(), inputs, params: 0, compute, result: to, form };
                let source = case.render().unwrap();
                if let Err(message) = check(&source, case.capabilities()) {
                    panic!("{}:\n{message}", case.what);
                }
            }
        }
    }
}

#[test]
fn several_results_are_stored_in_every_pair_of_dtypes() {
    let formula = &record_all(6, 1, |a, p| {
        let sum = a.iter().skip(1).fold(a[0], |s, &x| s + x);
        vec![sum, sum * p[0], a[0].lt(sum)]
    });
    for first in DType::COMMON {
        for second in DType::COMMON {
            for form in [Form::Dense, Form::Strided(2), Form::Scattered(3)] {
                let inputs = vec![Input::Tensor(first); 6];
                let results = [first, second, DType::Bool];
                for compute in [DType::F32, DType::F64, DType::I32, DType::I64] {
                    let shader =
                        Pointwise { formula, inputs: &inputs, params: 1, compute, results: &results, form };
                    let source = shader.render().unwrap();
                    if let Err(message) = check(&source, needed([first, second, compute])) {
                        panic!("{first} and {second} through {compute}, {form:?}:\n{message}");
                    }
                }
            }
        }
    }
    let inputs = [Input::Tensor(DType::F32); 6];
    let results = [DType::F32; 2];
    let shader = Pointwise {
        formula,
        inputs: &inputs,
        params: 1,
        compute: DType::F32,
        results: &results,
        form: Form::Dense,
    };
    assert_eq!(shader.render(), Err("2 results are stored of 3".into()));
}

#[test]
fn an_argument_that_is_read_must_be_given() {
    let formula = &record(|a, _| a[0] + a[1]);
    let inputs = [Input::Tensor(DType::F32), Input::Unread];
    let shader = Pointwise {
        formula,
        inputs: &inputs,
        params: 0,
        compute: DType::F32,
        results: &[DType::F32],
        form: Form::Dense,
    };
    assert_eq!(shader.render(), Err("argument 1 is read but not given".into()));
}

fn files() -> Vec<(PathBuf, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "wgsl"));
    paths.sort();
    paths.into_iter().map(|p| (p.clone(), fs::read_to_string(p).unwrap())).collect()
}

/// Kernel files that are not complete modules, with their templates.
const KERNELS: [(&str, &str); 5] = [
    ("elimination.wgsl", "factor.wgsl"),
    ("orthogonal.wgsl", "factor.wgsl"),
    ("svd.wgsl", "factor.wgsl"),
    ("matmul_direct.wgsl", "matmul.wgsl"),
    ("matmul_tiled.wgsl", "matmul.wgsl"),
];

/// Every slot of a template with its default content, except those that each shader fills in itself.
fn defaults(frame: &str) -> Vec<(&str, &str)> {
    let slots = frame.lines().filter_map(|l| l.trim().strip_prefix("// @slot "));
    let own = slots.filter(|s| !["types", "prelude", "functions", "kernels"].contains(s));
    own.map(|s| (s, content(frame, s))).collect()
}

/// All files, kernels within their template.
fn modules() -> Vec<(PathBuf, String)> {
    let originals = files();
    let mut files = originals.clone();
    for (path, source) in &mut files {
        let Some((_, frame)) = KERNELS.iter().find(|(kernel, _)| path.ends_with(kernel)) else { continue };
        let frame = &originals.iter().find(|(p, _)| p.ends_with(frame)).unwrap().1;
        let mut slots = defaults(frame);
        slots.push(("kernels", source));
        *source = shader(frame, DType::F32, &slots).unwrap();
    }
    for (name, compute) in [("prelude.wgsl", DType::F32), ("prelude_f64.wgsl", DType::F64)] {
        let (_, source) = files.iter_mut().find(|(p, _)| p.ends_with(name)).unwrap();
        *source += &coefficients(compute);
    }
    files
}

#[test]
fn every_shader_file_is_valid_as_it_stands() {
    let modules = modules();
    assert!(modules.iter().any(|(p, _)| p.ends_with("prelude.wgsl")));
    for (path, source) in modules {
        let wide = path.ends_with("prelude_f64.wgsl");
        if let Err(message) = check(&source, if wide { needed([DType::F64]) } else { Capabilities::empty() })
        {
            panic!("{}:\n{message}", path.display());
        }
    }
}

/// Literals with more digits than bounds or rounding constants have.
fn coefficient_literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in source.lines() {
        let code = line.split("//").next().unwrap();
        // Keeps exponents with a sign together.
        let joined = code.replace("e-", "e~").replace("e+", "e~");
        for word in joined.split(|c: char| !c.is_ascii_alphanumeric() && !"._~".contains(c)) {
            let literal = word.trim_end_matches(['l', 'f']).replace('~', "-");
            let Ok(value) = literal.parse::<f64>() else { continue };
            let mantissa: String = literal.split('e').next().unwrap().replace('.', "");
            let digits = mantissa.trim_matches('0').len();
            let power_of_two = value != 0.0 && value.to_bits() << 12 == 0;
            if literal.contains(['.', 'e']) && digits > 5 && value.fract() != 0.0 && !power_of_two {
                found.push(line.to_owned());
            }
        }
    }
    found
}

#[test]
fn coefficients_of_functions_stand_in_one_table() {
    assert_eq!(coefficient_literals("    p = p * z - 0.00080208405;\n").len(), 1);
    assert_eq!(coefficient_literals("    q = 2.7557234236107333e-06lf * r; // 0.123456789").len(), 1);
    for (path, source) in files() {
        if path.file_name().unwrap().to_string_lossy().starts_with("prelude") {
            assert_eq!(coefficient_literals(&source), Vec::<String>::new(), "{}", path.display());
        }
    }
}

#[test]
fn a_broken_body_is_reported_at_its_line() {
    let formula = &record(|a, _| a[0].exp());
    let inputs = [Input::Tensor(DType::F32)];
    let shader = Pointwise {
        formula,
        inputs: &inputs,
        params: 0,
        compute: DType::F32,
        results: &[DType::F32],
        form: Form::Dense,
    };
    let source = shader.render().unwrap().replace("m_exp(a0)", "m_exp(b0)");
    let line = 1 + source.lines().position(|l| l.contains("b0")).unwrap();
    let message = check(&source, Capabilities::empty()).unwrap_err();
    assert!(message.contains(&format!("wgsl:{line}:")) && message.contains('^'), "{message}");
}

/// Uses of WGSL functions and operators in float code that are too inaccurate, or wrong for NaN.
fn loose(source: &str) -> Vec<String> {
    const FUNCTIONS: &[&str] = &[
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "clamp",
        "cos",
        "cosh",
        "exp",
        "exp2",
        "fma",
        "fract",
        "inverseSqrt",
        "log",
        "log2",
        "max",
        "min",
        "mix",
        "modf",
        "pow",
        "pack2x16float",
        "saturate",
        "sign",
        "sin",
        "sinh",
        "smoothstep",
        "step",
        "tan",
        "tanh",
        "unpack2x16float",
    ];
    let mut found = Vec::new();
    for (n, text) in source.lines().enumerate() {
        let code = text.split("//").next().unwrap();
        let called = code.match_indices('(').filter_map(|(at, _)| {
            let before = &code[..at];
            before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()
        });
        let bad = called.filter(|f| FUNCTIONS.contains(f)).map(str::to_owned);
        let operators = ["%", "!="].into_iter().filter(|o| code.contains(o)).map(str::to_owned);
        found.extend(bad.chain(operators).map(|f| format!("{}: {f}", n + 1)));
    }
    found
}

#[test]
fn float_code_uses_no_loose_function_of_wgsl() {
    assert_eq!(loose("let a = m_exp(x);\nlet b = exp(x); // log(x)\nlet c = a != b;"), ["2: exp", "3: !="]);
    for (path, source) in files() {
        if !path.ends_with("prelude_int.wgsl") {
            assert_eq!(loose(&source), Vec::<String>::new(), "{}", path.display());
        }
    }
    for case in cases().iter().filter(|c| c.compute.is_float()) {
        assert_eq!(loose(&case.render().unwrap()), Vec::<String>::new(), "{}", case.what);
    }
}
