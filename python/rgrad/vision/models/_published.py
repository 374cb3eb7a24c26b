"""The published weights of all networks, one line each."""

from __future__ import annotations

import functools
from typing import Any

from rgrad.vision.models._api import ImageClassification, Weights, WeightsEnum
from rgrad.vision.transforms.functional import InterpolationMode

# Note [Table of published weights]
# The columns: network, name of the weights after "IMAGENET1K_" (`*` after the default ones), file, parameters, smallest
# edge of an image, billions of multiplications and additions for one image, size of the file in MB, accuracy of the
# first and of the first five guesses on ImageNet-1K in percent, preprocessing (`-`, or the edges of the crop and of
# the resize before it, `c` if that is bicubic, `L` if the weights have a license of their own), and where the training
# is described: a heading (`#`) of torchvision's references, an issue, a pull request or a repository.
_TABLE: str = """
AlexNet V1* alexnet-owt-7be5be79 61100840 63 0.714 233.087 56.522 79.066 - #alexnet-and-vgg
ConvNeXt_Base V1* convnext_base-6075fbad 88591464 32 15.355 338.064 84.062 96.87 224/232 #convnext
ConvNeXt_Large V1* convnext_large-ea097f82 197767336 32 34.361 754.537 84.414 96.976 224/232 #convnext
ConvNeXt_Small V1* convnext_small-0c510722 50223688 32 8.684 191.703 83.616 96.65 224/230 #convnext
ConvNeXt_Tiny V1* convnext_tiny-983f1562 28589128 32 4.456 109.119 82.52 96.146 224/236 #convnext
DenseNet121 V1* densenet121-a639ec97 7978856 29 2.834 30.845 74.434 91.972 - pull/116
DenseNet161 V1* densenet161-8d451a50 28681000 29 7.728 110.369 77.138 93.56 - pull/116
DenseNet169 V1* densenet169-b2777c0a 14149480 29 3.36 54.708 75.6 92.806 - pull/116
DenseNet201 V1* densenet201-c1103571 20013928 29 4.291 77.373 76.896 93.37 - pull/116
EfficientNet_B0 V1* efficientnet_b0_rwightman-7f5810bc 5288548 1 0.386 20.451 77.692 93.532 224/256/c #efficientnet-v1
EfficientNet_B1 V1 efficientnet_b1_rwightman-bac287d4 7794184 1 0.687 30.134 78.642 94.186 240/256/c #efficientnet-v1
EfficientNet_B1 V2* efficientnet_b1-c27df63c 7794184 1 0.687 30.136 79.838 94.934 240/255 issues/3995#new-recipe-with-lr-wd-crop-tuning
EfficientNet_B2 V1* efficientnet_b2_rwightman-c35c1473 9109994 1 1.088 35.174 80.608 95.31 288/288/c #efficientnet-v1
EfficientNet_B3 V1* efficientnet_b3_rwightman-b3899882 12233232 1 1.827 47.184 82.008 96.054 300/320/c #efficientnet-v1
EfficientNet_B4 V1* efficientnet_b4_rwightman-23ab8bcd 19341616 1 4.394 74.489 83.384 96.594 380/384/c #efficientnet-v1
EfficientNet_B5 V1* efficientnet_b5_lukemelas-1a07897c 30389784 1 10.266 116.864 83.444 96.628 456/456/c #efficientnet-v1
EfficientNet_B6 V1* efficientnet_b6_lukemelas-24a108a5 43040704 1 19.068 165.362 84.008 96.916 528/528/c #efficientnet-v1
EfficientNet_B7 V1* efficientnet_b7_lukemelas-c5b4e57e 66347960 1 37.746 254.675 84.122 96.908 600/600/c #efficientnet-v1
EfficientNet_V2_L V1* efficientnet_v2_l-59c71312 118515272 33 56.08 454.573 85.808 97.788 480/480/c #efficientnet-v2
EfficientNet_V2_M V1* efficientnet_v2_m-dc08266a 54139356 33 24.582 208.01 85.112 97.156 480/480 #efficientnet-v2
EfficientNet_V2_S V1* efficientnet_v2_s-dd5fe13b 21458488 33 8.366 82.704 84.228 96.878 384/384 #efficientnet-v2
GoogLeNet V1* googlenet-1378be20 6624904 15 1.498 49.731 69.778 89.53 - #googlenet
Inception_V3 V1* inception_v3_google-0cc3c7bd 27161264 75 5.713 103.903 77.294 93.45 299/342 #inception-v3
MNASNet0_5 V1* mnasnet0.5_top1_67.823-3ffadce67e 2218512 1 0.104 8.591 67.734 87.49 - 1e100/mnasnet_trainer
MNASNet0_75 V1* mnasnet0_75-7090bc5f 3170208 1 0.215 12.303 71.18 90.496 224/232 pull/6019
MNASNet1_0 V1* mnasnet1.0_top1_73.512-f206786ef8 4383312 1 0.314 16.915 73.456 91.51 - 1e100/mnasnet_trainer
MNASNet1_3 V1* mnasnet1_3-a4c69d6f 6282256 1 0.526 24.246 76.506 93.522 224/232 pull/6019
MobileNet_V2 V1 mobilenet_v2-b0353104 3504872 1 0.301 13.555 71.878 90.286 - #mobilenetv2
MobileNet_V2 V2* mobilenet_v2-7ebf99e0 3504872 1 0.301 13.598 72.154 90.822 224/232 issues/3995#new-recipe-with-reg-tuning
MobileNet_V3_Large V1 mobilenet_v3_large-8738ca79 5483032 1 0.217 21.114 74.042 91.34 - #mobilenetv3-large--small
MobileNet_V3_Large V2* mobilenet_v3_large-5c1a4163 5483032 1 0.217 21.107 75.274 92.566 224/232 issues/3995#new-recipe-with-reg-tuning
MobileNet_V3_Small V1* mobilenet_v3_small-047dcff4 2542856 1 0.057 9.829 67.668 87.402 - #mobilenetv3-large--small
RegNet_X_16GF V1 regnet_x_16gf-2007eb11 54278536 1 15.941 207.627 80.058 94.944 - #medium-models
RegNet_X_16GF V2* regnet_x_16gf-ba3796d7 54278536 1 15.941 207.627 82.716 96.196 224/232 issues/3995#new-recipe
RegNet_X_1_6GF V1 regnet_x_1_6gf-e3633e7f 9190136 1 1.603 35.339 77.04 93.44 - #small-models
RegNet_X_1_6GF V2* regnet_x_1_6gf-a12f2b72 9190136 1 1.603 35.339 79.668 94.922 224/232 issues/3995#new-recipe-with-fixres
RegNet_X_32GF V1 regnet_x_32gf-9d47f8d0 107811560 1 31.736 412.039 80.622 95.248 - #large-models
RegNet_X_32GF V2* regnet_x_32gf-6eb8fdc6 107811560 1 31.736 412.039 83.014 96.288 224/232 issues/3995#new-recipe
RegNet_X_3_2GF V1 regnet_x_3_2gf-f342aeae 15296552 1 3.177 58.756 78.364 93.992 - #medium-models
RegNet_X_3_2GF V2* regnet_x_3_2gf-7071aa85 15296552 1 3.177 58.756 81.196 95.43 224/232 issues/3995#new-recipe
RegNet_X_400MF V1 regnet_x_400mf-adf1edd5 5495976 1 0.414 21.258 72.834 90.95 - #small-models
RegNet_X_400MF V2* regnet_x_400mf-62229a5f 5495976 1 0.414 21.257 74.864 92.322 224/232 issues/3995#new-recipe-with-fixres
RegNet_X_800MF V1 regnet_x_800mf-ad17e45c 7259656 1 0.8 27.945 75.212 92.348 - #small-models
RegNet_X_800MF V2* regnet_x_800mf-94a99ebd 7259656 1 0.8 27.945 77.522 93.826 224/232 issues/3995#new-recipe-with-fixres
RegNet_X_8GF V1 regnet_x_8gf-03ceed89 39572648 1 7.995 151.456 79.344 94.686 - #medium-models
RegNet_X_8GF V2* regnet_x_8gf-2b70d774 39572648 1 7.995 151.456 81.682 95.678 224/232 issues/3995#new-recipe
RegNet_Y_128GF SWAG_E2E_V1* regnet_y_128gf_swag-c8ce3e52 644812894 1 374.57 2461.564 88.228 98.682 384/384/c/L facebookresearch/SWAG
RegNet_Y_128GF SWAG_LINEAR_V1 regnet_y_128gf_lc_swag-cbe8ce12 644812894 1 127.518 2461.564 86.068 97.844 224/224/c/L pull/5793
RegNet_Y_16GF V1 regnet_y_16gf-9e6ed7dd 83590140 1 15.912 319.49 80.424 95.24 - #large-models
RegNet_Y_16GF V2* regnet_y_16gf-3e4a00f9 83590140 1 15.912 319.49 82.886 96.328 224/232 issues/3995#new-recipe
RegNet_Y_16GF SWAG_E2E_V1 regnet_y_16gf_swag-43afe44d 83590140 1 46.735 319.49 86.012 98.054 384/384/c/L facebookresearch/SWAG
RegNet_Y_16GF SWAG_LINEAR_V1 regnet_y_16gf_lc_swag-f3ec0043 83590140 1 15.912 319.49 83.976 97.244 224/224/c/L pull/5793
RegNet_Y_1_6GF V1 regnet_y_1_6gf-b11a554e 11202430 1 1.612 43.152 77.95 93.966 - #small-models
RegNet_Y_1_6GF V2* regnet_y_1_6gf-0d7bc02a 11202430 1 1.612 43.152 80.876 95.444 224/232 issues/3995#new-recipe
RegNet_Y_32GF V1 regnet_y_32gf-4dee3f7a 145046770 1 32.28 554.076 80.878 95.34 - #large-models
RegNet_Y_32GF V2* regnet_y_32gf-8db6d4b5 145046770 1 32.28 554.076 83.368 96.498 224/232 issues/3995#new-recipe
RegNet_Y_32GF SWAG_E2E_V1 regnet_y_32gf_swag-04fdfa75 145046770 1 94.826 554.076 86.838 98.362 384/384/c/L facebookresearch/SWAG
RegNet_Y_32GF SWAG_LINEAR_V1 regnet_y_32gf_lc_swag-e1583746 145046770 1 32.28 554.076 84.622 97.48 224/224/c/L pull/5793
RegNet_Y_3_2GF V1 regnet_y_3_2gf-b5a9779c 19436338 1 3.176 74.567 78.948 94.576 - #medium-models
RegNet_Y_3_2GF V2* regnet_y_3_2gf-9180c971 19436338 1 3.176 74.567 81.982 95.972 224/232 issues/3995#new-recipe
RegNet_Y_400MF V1 regnet_y_400mf-c65dace8 4344144 1 0.402 16.806 74.046 91.716 - #small-models
RegNet_Y_400MF V2* regnet_y_400mf-e6988f5f 4344144 1 0.402 16.806 75.804 92.742 224/232 issues/3995#new-recipe
RegNet_Y_800MF V1 regnet_y_800mf-1b27b58c 6432512 1 0.834 24.774 76.42 93.136 - #small-models
RegNet_Y_800MF V2* regnet_y_800mf-58fc7688 6432512 1 0.834 24.774 78.828 94.502 224/232 issues/3995#new-recipe
RegNet_Y_8GF V1 regnet_y_8gf-d0d0e4a8 39381472 1 8.473 150.701 80.032 95.048 - #medium-models
RegNet_Y_8GF V2* regnet_y_8gf-dc2b1b54 39381472 1 8.473 150.701 82.828 96.33 224/232 issues/3995#new-recipe
ResNet101 V1 resnet101-63fe2227 44549160 1 7.801 170.511 77.374 93.546 - #resnet
ResNet101 V2* resnet101-cd907fc2 44549160 1 7.801 170.53 81.886 95.78 224/232 issues/3995#new-recipe
ResNet152 V1 resnet152-394f9c45 60192808 1 11.514 230.434 78.312 94.046 - #resnet
ResNet152 V2* resnet152-f82ba261 60192808 1 11.514 230.474 82.284 96.002 224/232 issues/3995#new-recipe
ResNet18 V1* resnet18-f37072fd 11689512 1 1.814 44.661 69.758 89.078 - #resnet
ResNet34 V1* resnet34-b627a593 21797672 1 3.664 83.275 73.314 91.42 - #resnet
ResNet50 V1 resnet50-0676ba61 25557032 1 4.089 97.781 76.13 92.862 - #resnet
ResNet50 V2* resnet50-11ad3fa6 25557032 1 4.089 97.79 80.858 95.434 224/232 issues/3995#issuecomment-1013906621
ResNeXt101_32X8D V1 resnext101_32x8d-8ba56ff5 88791336 1 16.414 339.586 79.312 94.526 - #resnext
ResNeXt101_32X8D V2* resnext101_32x8d-110c445d 88791336 1 16.414 339.673 82.834 96.228 224/232 issues/3995#new-recipe-with-fixres
ResNeXt101_64X4D V1* resnext101_64x4d-173b62eb 83455272 1 15.46 319.318 83.246 96.454 224/232 pull/5935
ResNeXt50_32X4D V1 resnext50_32x4d-7cdf4587 25028904 1 4.23 95.789 77.618 93.698 - #resnext
ResNeXt50_32X4D V2* resnext50_32x4d-1a0047aa 25028904 1 4.23 95.833 81.198 95.34 224/232 issues/3995#new-recipe
ShuffleNet_V2_X0_5 V1* shufflenetv2_x0.5-f707e7126e 1366792 1 0.04 5.282 60.552 81.746 - ericsun99/Shufflenet-v2-Pytorch
ShuffleNet_V2_X1_0 V1* shufflenetv2_x1-5666bf0f80 2278604 1 0.145 8.791 69.362 88.316 - ericsun99/Shufflenet-v2-Pytorch
ShuffleNet_V2_X1_5 V1* shufflenetv2_x1_5-3c479a10 3503624 1 0.296 13.557 72.996 91.086 224/232 pull/5906
ShuffleNet_V2_X2_0 V1* shufflenetv2_x2_0-8be3c8ee 7393996 1 0.583 28.433 76.23 93.006 224/232 pull/5906
SqueezeNet1_0 V1* squeezenet1_0-b66bff10 1248424 21 0.819 4.778 58.092 80.42 - pull/49#issuecomment-277560717
SqueezeNet1_1 V1* squeezenet1_1-b8a52dc0 1235496 17 0.349 4.729 58.178 80.624 - pull/49#issuecomment-277560717
Swin_B V1* swin_b-68c6b09e 87768224 224 15.431 335.364 83.582 96.64 224/238/c #swintransformer
Swin_S V1* swin_s-5e29d889 49606258 224 8.741 189.786 83.196 96.36 224/246/c #swintransformer
Swin_T V1* swin_t-704ceda3 28288354 224 4.491 108.19 81.474 95.776 224/232/c #swintransformer
Swin_V2_B V1* swin_v2_b-781e5279 87930848 256 20.325 336.372 84.112 96.864 256/272/c #swintransformer-v2
Swin_V2_S V1* swin_v2_s-637d8ceb 49737442 256 11.546 190.675 83.712 96.816 256/260/c #swintransformer-v2
Swin_V2_T V1* swin_v2_t-b137f0e2 28351570 256 5.94 108.626 82.072 96.132 256/260/c #swintransformer-v2
VGG11 V1* vgg11-8a719046 132863336 32 7.609 506.84 69.02 88.628 - #alexnet-and-vgg
VGG11_BN V1* vgg11_bn-6002323d 132868840 32 7.609 506.881 70.37 89.81 - #alexnet-and-vgg
VGG13 V1* vgg13-19584684 133047848 32 11.308 507.545 69.928 89.246 - #alexnet-and-vgg
VGG13_BN V1* vgg13_bn-abd245e5 133053736 32 11.308 507.59 71.586 90.374 - #alexnet-and-vgg
VGG16 V1* vgg16-397923af 138357544 32 15.47 527.796 71.592 90.382 - #alexnet-and-vgg
VGG16 FEATURES vgg16_features-amdegroot-88682ab5 138357544 32 15.47 527.802 nan nan - amdegroot/ssd.pytorch#training-ssd
VGG16_BN V1* vgg16_bn-6c64b313 138365992 32 15.47 527.866 73.36 91.516 - #alexnet-and-vgg
VGG19 V1* vgg19-dcbb9e9d 143667240 32 19.632 548.051 72.376 90.876 - #alexnet-and-vgg
VGG19_BN V1* vgg19_bn-c79401a0 143678248 32 19.632 548.143 74.218 91.842 - #alexnet-and-vgg
ViT_B_16 V1* vit_b_16-c867db91 86567656 224 17.564 330.285 81.072 95.318 - #vit_b_16
ViT_B_16 SWAG_E2E_V1 vit_b_16_swag-9ac1b537 86859496 384 55.484 331.398 85.304 97.65 384/384/c/L facebookresearch/SWAG
ViT_B_16 SWAG_LINEAR_V1 vit_b_16_lc_swag-4e70ced5 86567656 224 17.564 330.285 81.886 96.18 224/224/c/L pull/5793
ViT_B_32 V1* vit_b_32-d86f8d99 88224232 224 4.409 336.604 75.912 92.466 - #vit_b_32
ViT_H_14 SWAG_E2E_V1* vit_h_14_swag-80465313 633470440 518 1016.717 2416.643 88.552 98.694 518/518/c/L facebookresearch/SWAG
ViT_H_14 SWAG_LINEAR_V1 vit_h_14_lc_swag-c1eb923e 632045800 224 167.295 2411.209 85.708 97.73 224/224/c/L pull/5793
ViT_L_16 V1* vit_l_16-852ce7e3 304326632 224 61.555 1161.023 79.662 94.638 224/242 #vit_l_16
ViT_L_16 SWAG_E2E_V1 vit_l_16_swag-4f3808c9 305174504 512 361.986 1164.258 88.064 98.512 512/512/c/L facebookresearch/SWAG
ViT_L_16 SWAG_LINEAR_V1 vit_l_16_lc_swag-4d563306 304326632 224 61.555 1161.023 85.146 97.422 224/224/c/L pull/5793
ViT_L_32 V1* vit_l_32-c7638314 306535400 224 15.378 1169.449 76.972 93.07 - #vit_l_32
Wide_ResNet101_2 V1 wide_resnet101_2-32ee1156 126886696 1 22.753 242.896 78.848 94.284 - pull/912#issue-445437439
Wide_ResNet101_2 V2* wide_resnet101_2-d733dc28 126886696 1 22.753 484.747 82.51 96.02 224/232 issues/3995#new-recipe
Wide_ResNet50_2 V1 wide_resnet50_2-95faca4d 68883240 1 11.398 131.82 78.468 94.086 - pull/912#issue-445437439
Wide_ResNet50_2 V2* wide_resnet50_2-9ba9bcbe 68883240 1 11.398 263.124 81.602 95.758 224/232 issues/3995#new-recipe-with-fixres
"""  # noqa: E501 - a line for each

_SITE = "https://github.com/"
_VISION = _SITE + "pytorch/vision/"
_SWAG_LICENSE = _SITE + "facebookresearch/SWAG/blob/main/LICENSE"
# The preprocessing of these has another mean and standard deviation.
_SCALES: dict[tuple[str, str], tuple[Any, Any]] = {
    ("EfficientNet_V2_L", "V1"): ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ("VGG16", "FEATURES"): ((0.48235, 0.45882, 0.40784), (1 / 255, 1 / 255, 1 / 255)),
}


def _recipe(short: str) -> str:
    if short.startswith("#"):
        return f"{_VISION}tree/main/references/classification{short}"
    return (_VISION if short.startswith(("issues/", "pull/")) else _SITE) + short


def _percent(text: str) -> float:
    return float("nan") if text == "None" else float(text)


def _weights(row: list[str]) -> Weights:
    network, name, file, parameters, edge, ops, size, first, five, shown, recipe = row
    prepare: dict[str, Any] = {"crop_size": 224}
    flags: list[str] = []
    if shown != "-":
        crop, resize, *flags = shown.split("/")
        prepare = {"crop_size": int(crop), "resize_size": int(resize)}
        if "c" in flags:
            prepare["interpolation"] = InterpolationMode.BICUBIC
    scale = _SCALES.get((network, name.removesuffix("*")))
    if scale is not None:
        prepare["mean"], prepare["std"] = scale
    meta: dict[str, Any] = {
        "num_classes": 1000,
        "num_params": int(parameters),
        "min_size": (int(edge), int(edge)),
        "_metrics": {"ImageNet-1K": {"acc@1": _percent(first), "acc@5": _percent(five)}},
        "_ops": float(ops),
        "_file_size": float(size),
    }
    if recipe != "-":
        meta["recipe"] = _recipe(recipe)
    if "L" in flags:
        meta["license"] = _SWAG_LICENSE
    url = f"https://download.pytorch.org/models/{file}.pth"
    return Weights(url, functools.partial(ImageClassification, **prepare), meta)


@functools.cache
def _rows() -> dict[str, list[list[str]]]:
    rows: dict[str, list[list[str]]] = {}
    for line in _TABLE.strip().splitlines():
        row = [str(part) for part in line.split()]
        rows.setdefault(row[0], []).append(row)
    return rows


def published(network: str, module: str) -> Any:
    """The enumeration of a network's published weights; see Note [Table of published weights].

    Args:
        network: the enumeration's name before "_Weights".
        module: the module that defines it.
    """
    members: dict[str, Weights] = {}
    for row in _rows()[network]:
        weights = members["IMAGENET1K_" + row[1].removesuffix("*")] = _weights(row)
        if row[1].endswith("*"):
            members["DEFAULT"] = weights
    make: Any = WeightsEnum
    enum = make(f"{network}_Weights", members, module=module)
    enum.__doc__ = f"The published weights of `{network}`."
    return enum
