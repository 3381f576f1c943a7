// Everything that a service needs: steps, the definition, starting sagas, and the worker that runs them.
#pragma once

#include <skald/batch.hpp>
#include <skald/config.hpp>
#include <skald/definition.hpp>
#include <skald/entry.hpp>
#include <skald/errors.hpp>
#include <skald/http_handler.hpp>
#include <skald/log.hpp>
#include <skald/message_handler.hpp>
#include <skald/outcome.hpp>
#include <skald/saga.hpp>
#include <skald/service.hpp>
#include <skald/start.hpp>
#include <skald/step.hpp>
#include <skald/step_context.hpp>
#include <skald/step_hooks.hpp>
#include <skald/step_options.hpp>
#include <skald/trace.hpp>
#include <skald/upcast.hpp>
#include <skald/worker.hpp>
