"""Modified Bessel functions."""

from tests.conformance.cases.bessel import narrow, places
from tests.conformance.harness import case

CASES = [
    case("aten.i0.default", narrow(-12.0, 12.0)),
    case("aten.special_i0e.default", places(-12.0, 12.0)),
    case("aten.special_i1.default", narrow(-12.0, 12.0)),
    case("aten.special_i1e.default", narrow(-12.0, 12.0)),
    case("aten.special_modified_bessel_i0.default", places(-12.0, 12.0), rtol=1e-5, atol=1e-6),
    case("aten.special_modified_bessel_i1.default", places(-12.0, 12.0), rtol=1e-5, atol=1e-6),
    case("aten.special_modified_bessel_k0.default", places(-1.0, 8.0), rtol=1e-5, atol=1e-6),
    case("aten.special_modified_bessel_k1.default", places(-1.0, 8.0), rtol=1e-5, atol=1e-6),
    case("aten.special_scaled_modified_bessel_k0.default", places(-1.0, 8.0), rtol=1e-5, atol=1e-6),
    case("aten.special_scaled_modified_bessel_k1.default", places(-1.0, 8.0), rtol=1e-5, atol=1e-6),
]
