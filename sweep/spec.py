"""What the frozen values of the inventory are made of."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    WrapSerializer,
)


def _plain(value: Mapping[str, Any], handler: SerializerFunctionWrapHandler) -> Any:
    return handler(dict(value))


V = TypeVar("V")
# A mapping nobody can change afterwards; dumped as a plain dict.
Frozen = Annotated[Mapping[str, V], AfterValidator(MappingProxyType), WrapSerializer(_plain)]

Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]


class Spec(BaseModel):
    """A frozen value; keys it does not know and values of another type are refused."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, validate_default=True
    )
