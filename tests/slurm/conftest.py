import functools
import itertools
import os
from contextlib import ExitStack, contextmanager

import pytest
from cluster import Cluster
from configuration import user_name
from workplace import Workplace


def pytest_addoption(parser):
    parser.addoption("--rounds", type=int, default=1, help="how often each submission is tried")


job_ids = itertools.count(1 + 30 * 97 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), 97)


def started(folder, accounting=False, node_prefix=(), **settings):
    """Yields a cluster, and stops it afterwards. Fails if processes are left."""
    cluster = Cluster(folder / "slurm", node_prefix)
    # Ranks meet at a port that follows from the job's id, so clusters need different ids.
    cluster.start(accounting, FirstJobId=next(job_ids), **settings)
    try:
        yield cluster
    finally:
        cluster.stop()
    assert cluster.processes() == []


def left_empty(cluster):
    """Yields the cluster for one test. Fails if the test leaves jobs or their processes."""
    yield cluster
    try:
        cluster.wait_until("all jobs have ended", lambda: cluster.queue() == [])
        cluster.wait_until("the jobs' processes have ended",
                           lambda: cluster.processes_of_jobs() == [])
    except TimeoutError:
        cluster.call("scancel", f"--user={user_name()}")
        raise


@pytest.fixture(scope="session")
def session_cluster(tmp_path_factory):
    yield from started(tmp_path_factory.mktemp("cluster"))


@pytest.fixture(scope="session")
def session_accounting_cluster(tmp_path_factory):
    # With this MinJobAge, only sacct knows jobs that ended 10 seconds ago.
    yield from started(tmp_path_factory.mktemp("cluster"), accounting=True, MinJobAge=2)


@pytest.fixture
def cluster(session_cluster):
    yield from left_empty(session_cluster)


@pytest.fixture
def accounting_cluster(session_accounting_cluster):
    yield from left_empty(session_accounting_cluster)


@pytest.fixture(params=["without accounting", "with accounting"])
def with_accounting(request):
    return request.param == "with accounting"


# For tests of a job's end, about which Slurm is asked in another way if there is accounting.
@pytest.fixture
def any_cluster(request, with_accounting):
    return request.getfixturevalue("accounting_cluster" if with_accounting else "cluster")


@pytest.fixture
def own_cluster(tmp_path_factory):
    """Starts a cluster that a test may break: own_cluster(accounting=False, node_prefix=(), **settings).
    Its folder has a short name, because it holds sockets."""
    with ExitStack() as clusters:

        def start(**settings):
            folder = tmp_path_factory.mktemp("own")
            cluster = clusters.enter_context(contextmanager(started)(folder, **settings))
            return clusters.enter_context(contextmanager(left_empty)(cluster))

        yield start


@pytest.fixture
def gate(tmp_path):
    """A file that does not exist yet, for which ranks wait."""
    return tmp_path / "gate"


@pytest.fixture
def any_own_cluster(own_cluster, with_accounting):
    return functools.partial(own_cluster, accounting=with_accounting)


@pytest.fixture
def workplace(runner, trainer, stub_trainer, tmp_path):
    """workplace(cluster, experiment) makes a folder with experiment.yaml, to run on the cluster."""
    made = []

    def make(cluster, experiment, folder="work"):
        made.append(Workplace(tmp_path / folder, cluster, experiment, runner, trainer, stub_trainer))
        return made[-1]

    yield make
    for workplace in made:
        workplace.end()
