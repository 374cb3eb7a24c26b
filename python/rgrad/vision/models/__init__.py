"""Networks, with torchvision's names, shapes and weights."""

from rgrad.vision.models import (
    alexnet,
    convnext,
    densenet,
    efficientnet,
    googlenet,
    inception,
    mnasnet,
    mobilenet,
    mobilenetv2,
    mobilenetv3,
    regnet,
    resnet,
    shufflenetv2,
    squeezenet,
    swin_transformer,
    vgg,
    vision_transformer,
)
from rgrad.vision.models._api import (
    Weights,
    WeightsEnum,
    get_model,
    get_model_builder,
    get_model_weights,
    get_weight,
    list_models,
)
from rgrad.vision.models.alexnet import *
from rgrad.vision.models.convnext import *
from rgrad.vision.models.densenet import *
from rgrad.vision.models.efficientnet import *
from rgrad.vision.models.googlenet import *
from rgrad.vision.models.inception import *
from rgrad.vision.models.mnasnet import *
from rgrad.vision.models.mobilenetv2 import *
from rgrad.vision.models.mobilenetv3 import *
from rgrad.vision.models.regnet import *
from rgrad.vision.models.resnet import *
from rgrad.vision.models.shufflenetv2 import *
from rgrad.vision.models.squeezenet import *
from rgrad.vision.models.swin_transformer import *
from rgrad.vision.models.vgg import *
from rgrad.vision.models.vision_transformer import *
