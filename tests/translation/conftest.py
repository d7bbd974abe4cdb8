from __future__ import annotations
from itertools import product
import pytest
from tests.translation.through import ThroughLink

@pytest.fixture(params=product(("sse","http"), ("modern","legacy"), (("http","modern"),("http","legacy"),("sse","legacy"))), ids=lambda p: "-".join([p[0],p[1],*p[2]]))
def link(request):
    t,e,(u,ue)=request.param
    if t=="sse" and e=="modern": pytest.skip("x")
    return ThroughLink(t,e,upstream=u,upstream_era=ue)
