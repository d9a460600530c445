"""Commands that the pages of docs/reference show, beside those of `--help`."""

from tests.support.documented import Here, There

COMMANDS: dict[str, Here | There] = {
    "capsule image save docker-daemon:torch:cpu FILE": There(
        test="image/test_save.py::test_an_image_of_a_local_engine_is_saved"
    ),
}
