"""Laws of updates as they are written: the bytes are those of the messages."""

from hypothesis import given
from hypothesis import strategies as st

from pinfold.nri.api import nri_pb2
from pinfold.nri.plugin.messages import update_messages
from pinfold.nri.plugin.written_updates import written_updates
from pinfold.policy.model.container import ContainerId
from pinfold.policy.model.pinning import Pinning
from pinfold.topology.sets.cpuset import CpuSet, NodeSet

MASKS = st.integers(0, 2**12) | st.integers(0, 2**600)
PINNINGS = st.lists(
    st.builds(
        Pinning,
        cpus=st.none() | st.builds(CpuSet, MASKS),
        mems=st.none() | st.builds(NodeSet, MASKS),
    ),
    min_size=1,
    max_size=4,
)
IDS = st.text(max_size=3).map(ContainerId) | st.text("0f", min_size=127, max_size=129).map(
    ContainerId
)


@given(PINNINGS, st.lists(IDS, unique=True), st.data())
def test_written_updates_are_those_of_the_messages(
    pinnings: list[Pinning], ids: list[ContainerId], data: st.DataObject
) -> None:
    told = {one: data.draw(st.sampled_from(pinnings)) for one in ids}
    for answer in (nri_pb2.CreateContainerResponse, nri_pb2.StopContainerResponse):
        message = answer(update=update_messages(told))
        assert written_updates(answer, told) == message.SerializeToString()
