// Tests the engine on a simulated NeuronCore. The duration of a step comes from the simulated
// clock.

#include <gtest/gtest.h>

#include "places.h"
#include "serve/engine/engine_support.h"
#include "trainium/device/backend.h"
#include "trainium/device/mlp_program.h"

namespace neuronmm::serve {
namespace {

TEST(EngineOnADevice, AnswersLikeGenerateAndSharesPrefixes) {
  const simulator::DeviceSpec spec = simulator::find_device("trn1").value();
  const auto backend =
      device::make_backend(spec, device::default_tilings(spec), cpu::make_backend());
  const model::Transformer transformer =
      model::Transformer::load(source_dir() / "models/demo", *backend).value();
  Request request;
  request.prompt = model::random_tokens(140, transformer.config().vocab_size, 1);
  request.max_new_tokens = 6;
  request.logprobs = 1;
  const model::Generation expected = expected_answer(transformer, request);
  const double start = backend->clock_seconds();
  Engine engine(transformer, {});
  const auto alone = submit_and_wait(engine, request);
  expect_answer(alone->answer(), expected);
  expect_no_block_in_use(engine);
  EXPECT_NEAR(engine.statistics().step_seconds, backend->clock_seconds() - start, 1e-12);
  const double first_seconds = engine.statistics().step_seconds;
  EXPECT_GT(first_seconds, 0);

  const auto again = submit_and_wait(engine, request);
  EXPECT_EQ(again->usage()->cached_tokens, 139);
  EXPECT_EQ(again->answer().tokens.size(), 6u);
  expect_no_block_in_use(engine);
  EXPECT_LT(engine.statistics().step_seconds, 2 * first_seconds);
  request.choices = 3;
  const auto several = submit_and_wait(engine, request);
  for (const ReceivedAnswer& answer : several->answers()) EXPECT_EQ(answer.tokens.size(), 6u);
  expect_no_block_in_use(engine);
}

}  // namespace
}  // namespace neuronmm::serve
