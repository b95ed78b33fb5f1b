"""Functions of one number."""

from tests.conformance.harness import case
from tests.conformance.samples import unary

CASES = [
    case("aten.sqrt.default", unary(complex_=True)),
    case("aten.rsqrt.default", unary(complex_=True)),
    case("aten.exp.default", unary(complex_=True)),
    case("aten.exp2.default", unary()),
    case("aten.expm1.default", unary(complex_=True)),
    case("aten.log.default", unary(complex_=True)),
    case("aten.log1p.default", unary(complex_=True)),
    case("aten.log2.default", unary(complex_=True)),
    case("aten.log10.default", unary(complex_=True)),
    case("aten.sin.default", unary(complex_=True)),
    case("aten.cos.default", unary(complex_=True)),
    case("aten.tan.default", unary(complex_=True)),
    case("aten.asin.default", unary(low=-1.0, high=1.0, complex_=True)),
    case("aten.acos.default", unary(low=-1.0, high=1.0, complex_=True)),
    case("aten.atan.default", unary(complex_=True)),
    case("aten.sinh.default", unary(complex_=True)),
    case("aten.cosh.default", unary(complex_=True)),
    case("aten.tanh.default", unary(complex_=True)),
    case("aten.asinh.default", unary(complex_=True)),
    case("aten.acosh.default", unary(low=1.0, complex_=True)),
    case("aten.atanh.default", unary(low=-1.0, high=1.0, complex_=True)),
]
