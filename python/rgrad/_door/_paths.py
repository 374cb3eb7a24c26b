"""Module paths of PyTorch that are no files here: where programs import its classes from, and pickles name them.

Every row is a path below `torch` (below `torchvision` where it begins with `vision`), the namespace here that has the
names, and the names. Where a module of that path exists, the row adds names to it; where none does, the finder makes
one. Either way the path is the `__module__` of what is defined for it while the door is open.
"""

from __future__ import annotations

_NN = "nn.modules"

_ROWS = {
    "_C._functorch": (
        "_vmap",
        "_add_batch_dim _is_vmap_fallback_enabled _remove_batch_dim _set_vmap_fallback_enabled get_unwrapped "
        "is_batchedtensor is_functorch_wrapped_tensor is_gradtrackingtensor maybe_current_level maybe_get_bdim "
        "maybe_get_level reshape_dim_into reshape_dim_outof",
    ),
    "_C._profiler": ("_tracebacks", "gather_traceback symbolize_tracebacks"),
    "_dispatch.python": ("_core_names", "enable_python_dispatcher no_python_dispatcher"),
    "_functorch.apis": ("functorch._internal", "chunk_vmap grad grad_and_value vmap"),
    "_functorch.batch_norm_replacement": ("functorch._internal", "replace_all_batch_norm_modules_"),
    "_functorch.eager_transforms": (
        "functorch._internal",
        "_slice_argnums argnums_t functionalize grad_and_value hessian jacfwd jacrev jvp linearize vjp",
    ),
    "_functorch.utils": ("functorch._internal", "argnums_t enable_single_level_autograd_function exposed_in"),
    "_functorch.functional_call": ("func", "functional_call stack_module_state"),
    "_functorch.make_functional": (
        "functorch._modules",
        "FunctionalModule FunctionalModuleWithBuffers combine_state_for_ensemble functional_init "
        "functional_init_with_buffers make_functional make_functional_with_buffers",
    ),
    "accelerator.memory": (
        "accelerator",
        "empty_cache max_memory_allocated memory_allocated memory_reserved memory_stats reset_peak_memory_stats",
    ),
    "autograd.anomaly_mode": ("autograd", "detect_anomaly set_detect_anomaly"),
    "_functorch.vmap": ("_vmap", "chunk_vmap restore_vmap vmap"),
    "_vmap_internals": ("_vmap", "_vmap vmap"),
    "cpu.amp": ("amp._cpu", "GradScaler autocast"),
    "cuda.amp.autocast_mode": ("cuda.amp", "autocast"),
    "cuda.amp.common": ("cuda.amp", "amp_definitely_not_available"),
    "cuda.amp.grad_scaler": ("cuda.amp", "GradScaler"),
    "cuda.memory": (
        "cuda",
        "CUDAPluggableAllocator MemPool empty_cache get_allocator_backend max_memory_allocated mem_get_info "
        "memory_allocated memory_cached memory_reserved memory_snapshot memory_stats memory_stats_as_nested_dict "
        "memory_summary reset_accumulated_memory_stats reset_max_memory_allocated reset_peak_memory_stats "
        "set_per_process_memory_fraction",
    ),
    "cuda.random": (
        "cuda",
        "get_rng_state get_rng_state_all initial_seed manual_seed manual_seed_all seed seed_all set_rng_state "
        "set_rng_state_all",
    ),
    "cuda.streams": ("cuda", "Event ExternalStream Stream"),
    "distributions.beta": ("distributions.dirichlet", "Beta"),
    "distributions.cauchy": ("distributions.laplace", "Cauchy"),
    "distributions.chi2": ("distributions.gamma", "Chi2"),
    "distributions.fishersnedecor": ("distributions.gamma", "FisherSnedecor"),
    "distributions.generalized_pareto": ("distributions.pareto", "GeneralizedPareto"),
    "distributions.geometric": ("distributions.binomial", "Geometric"),
    "distributions.half_cauchy": ("distributions.laplace", "HalfCauchy"),
    "distributions.half_normal": ("distributions.normal", "HalfNormal"),
    "distributions.inverse_gamma": ("distributions.gamma", "InverseGamma"),
    "distributions.kumaraswamy": ("distributions.gumbel", "Kumaraswamy"),
    "distributions.lkj_cholesky": ("distributions.wishart", "LKJCholesky"),
    "distributions.log_normal": ("distributions.normal", "LogNormal"),
    "distributions.logistic_normal": ("distributions.normal", "LogisticNormal"),
    "distributions.lowrank_multivariate_normal": ("distributions.multivariate_normal", "LowRankMultivariateNormal"),
    "distributions.multinomial": ("distributions.categorical", "Multinomial"),
    "distributions.negative_binomial": ("distributions.binomial", "NegativeBinomial"),
    "distributions.one_hot_categorical": (
        "distributions.categorical",
        "OneHotCategorical OneHotCategoricalStraightThrough",
    ),
    "distributions.poisson": ("distributions.binomial", "Poisson"),
    "distributions.relaxed_bernoulli": (
        "distributions.relaxed_categorical",
        "LogitRelaxedBernoulli RelaxedBernoulli",
    ),
    "distributions.studentT": ("distributions.gamma", "StudentT"),
    "distributions.transforms": (
        "distributions._transform",
        "CatTransform ComposeTransform CumulativeDistributionTransform IndependentTransform ReshapeTransform "
        "StackTransform Transform _InverseTransform",
    ),
    "distributions.weibull": ("distributions.gumbel", "Weibull"),
    "distributed.algorithms.join": ("distributed._names", "Join JoinHook Joinable"),
    "distributed.checkpoint": (
        "distributed._names",
        "DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter StorageReader StorageWriter "
        "async_save load load_state_dict save save_state_dict",
    ),
    "distributed.checkpoint.state_dict": (
        "distributed._names",
        "StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict set_model_state_dict "
        "set_optimizer_state_dict set_state_dict",
    ),
    "distributed.checkpoint.stateful": ("distributed._names", "Stateful"),
    "distributed.device_mesh": ("distributed._names", "DeviceMesh init_device_mesh"),
    "distributed.distributed_c10d": (
        "distributed",
        "Backend GroupMember ProcessGroup ReduceOp Work all_gather all_gather_into_tensor all_gather_object "
        "all_reduce barrier broadcast broadcast_object_list destroy_process_group get_backend get_global_rank "
        "get_rank get_world_size group init_process_group is_initialized new_group",
    ),
    "distributed.fsdp": (
        "distributed._names",
        "BackwardPrefetch CPUOffload CPUOffloadPolicy FSDPModule FlatParameter FullOptimStateDictConfig "
        "FullStateDictConfig FullyShardedDataParallel LocalOptimStateDictConfig LocalStateDictConfig "
        "MixedPrecision MixedPrecisionPolicy OffloadPolicy OptimStateDictConfig ShardedOptimStateDictConfig "
        "ShardedStateDictConfig ShardingStrategy StateDictConfig StateDictType fully_shard "
        "register_fsdp_forward_method",
    ),
    "distributed.fsdp.sharded_grad_scaler": ("distributed._names", "ShardedGradScaler"),
    "distributed.fsdp.wrap": (
        "distributed._names",
        "ModuleWrapPolicy always_wrap_policy enable_wrap lambda_auto_wrap_policy size_based_auto_wrap_policy "
        "transformer_auto_wrap_policy wrap",
    ),
    "distributed.nn": (
        "distributed._names",
        "RemoteModule all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter "
        "scatter",
    ),
    "distributed.nn.functional": (
        "distributed._names",
        "all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter",
    ),
    "distributed.optim": ("distributed._names", "PostLocalSGDOptimizer ZeroRedundancyOptimizer"),
    "distributed.rpc": ("distributed._names", "RRef init_rpc rpc_async rpc_sync shutdown"),
    "distributed.tensor": (
        "distributed._names",
        "DTensor Partial Placement Replicate Shard distribute_module distribute_tensor",
    ),
    "distributed.tensor.parallel": (
        "distributed._names",
        "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput "
        "RowwiseParallel SequenceParallel loss_parallel parallelize_module",
    ),
    "func": ("nn.utils.stateless", "functional_call"),
    "fx.experimental.symbolic_shapes": ("_core_names", "ShapeEnv"),
    "jit.annotations": ("jit", "Dict List Optional Tuple"),
    "nn.modules.activation": (_NN, "MultiheadAttention"),
    "nn.modules.batchnorm": (_NN, "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm"),
    "nn.modules.channelshuffle": (_NN, "ChannelShuffle"),
    "nn.modules.conv": (
        _NN,
        "ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d",
    ),
    "nn.modules.instancenorm": (
        _NN,
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d "
        "_InstanceNorm",
    ),
    "nn.modules.linear": (_NN, "LazyLinear"),
    "nn.modules.pixelshuffle": (_NN, "PixelShuffle PixelUnshuffle"),
    "nn.modules.loss": (_NN, "LinearCrossEntropyLoss"),
    "nn.modules.pooling": (
        _NN,
        "FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d",
    ),
    "nn.modules.module": (f"{_NN}._state", "_IncompatibleKeys"),
    "distributed._composable.fsdp": ("distributed._names", "FSDPModule fully_shard"),
    "distributed._tensor": ("distributed._names", "DTensor Partial Placement Replicate Shard distribute_tensor"),
    "distributed._tensor.experimental": ("distributed._names", "implicit_replication"),
    "distributed.tensor.experimental": ("distributed._names", "implicit_replication"),
    "nn.parallel.data_parallel": ("nn", "DataParallel"),
    "nn.parallel.distributed": ("nn.parallel", "DistributedDataParallel"),
    "nn.parallel.scatter_gather": ("nn.parallel", "gather scatter scatter_kwargs"),
    "optim._adafactor": ("optim", "Adafactor"),
    "optim._muon": ("optim", "Muon"),
    "optim.adamw": ("optim.functional", "adamw"),
    "optim.adadelta": ("optim.functional", "adadelta"),
    "optim.adagrad": ("optim.functional", "adagrad"),
    "optim.adam": ("optim.functional", "adam"),
    "optim.adamax": ("optim.functional", "adamax"),
    "optim.asgd": ("optim.functional", "asgd"),
    "optim.nadam": ("optim.functional", "nadam"),
    "optim.radam": ("optim.functional", "radam"),
    "optim.rmsprop": ("optim.functional", "rmsprop"),
    "optim.rprop": ("optim.functional", "rprop"),
    "optim.sgd": ("optim.functional", "sgd"),
    "optim.lr_scheduler": (
        "optim.lr_scheduler",
        "ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LRScheduler "
        "LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR StepLR",
    ),
    "storage": ("storage", "UntypedStorage"),
    "testing._comparison": ("testing._comparison", "assert_allclose assert_close default_tolerances get_tolerances"),
    "testing._creation": ("testing._creation", "make_tensor"),
    "testing._utils": ("testing._utils", "freeze_rng_state wrapper_set_seed"),
    "utils._exposed_in": ("functorch._internal", "exposed_in"),
    "utils.checkpoint": ("utils._recompute", "CheckpointError"),
    "utils.data._utils": ("utils.data._workers", "MP_STATUS_CHECK_INTERVAL"),
    "utils.data._utils.collate": (
        "utils.data._collate",
        "collate collate_float_fn collate_int_fn collate_numpy_array_fn collate_numpy_scalar_fn collate_str_fn "
        "collate_tensor_fn default_collate default_collate_fn_map default_convert np_str_obj_array_pattern",
    ),
    "utils.data._utils.worker": ("utils.data._workers", "WorkerInfo _generate_state get_worker_info"),
    "utils.data.dataloader": ("utils.data", "default_collate default_convert get_worker_info"),
}

PATHS: dict[str, tuple[str, tuple[str, ...]]] = {
    path: (source, tuple(names.split())) for path, (source, names) in _ROWS.items()
}

# Where pickles name a thing: the innermost of its paths, which for all but these is the last row that has it.
_HOMES = {
    "default_collate": "utils.data._utils.collate",
    "default_convert": "utils.data._utils.collate",
    "get_worker_info": "utils.data._utils.worker",
    "functional_call": "func",
}


def home(native: str, name: str) -> str | None:
    """The path under which PyTorch has what the module `native` (below the package) defines as `name`.

    Only rows of the same first part count: `cuda.amp.autocast` is another class than `amp.autocast`.
    """
    if name in _HOMES and native.partition(".")[0] == PATHS[_HOMES[name]][0].partition(".")[0]:
        return _HOMES[name]
    found = None
    for path, (source, names) in PATHS.items():
        if name in names and (native == source or native.startswith(source + ".")):
            found = path
    return found
