#include <skald/worker.hpp>

#include "core/log.hpp"
#include "entry/entry.hpp"
#include "runtime/registry.hpp"
#include "tracing/tracer.hpp"
#include "worker/body_stores.hpp"
#include "worker/descriptors.hpp"
#include "worker/process.hpp"
#include "worker/service_parts.hpp"
#include "worker/signals.hpp"
#include "worker/transports.hpp"

#include <skald/errors.hpp>

#include <atomic>
#include <string>
#include <utility>

namespace skald {
namespace {

std::shared_ptr<logger> or_stderr(std::shared_ptr<logger> log, std::string const& service, config const& settings)
{
    auto const format = core::log_format_of(settings.log_format);
    return log ? std::move(log) : std::make_shared<core::stderr_logger>(service, format);
}

std::shared_ptr<ports::front> front_for(detail::service_parts const& parts, config const& settings, logger& log)
{
    if (settings.guard == "postgres") return nullptr;
    if (!parts.front)
        throw configuration_error{"SKALD_GUARD=" + settings.guard + ": the service " + parts.name +
                                  " has nothing in front of its guard: link skald::redis and call "
                                  "service.front(skald::redis()), or leave SKALD_GUARD at postgres"};
    return parts.front(settings, log);
}

std::unique_ptr<tracing::tracer> tracer_for(config const& settings)
{
    if (settings.otlp_endpoint.empty()) return nullptr;
    return std::make_unique<tracing::tracer>(tracing::tracer_options{
        .ratio = settings.trace_ratio,
        .messaging_system = worker_detail::has_no_broker(settings) ? "postgresql" : settings.transport});
}

}  // namespace

class worker::implementation
{
public:
    implementation(service what, config s, std::shared_ptr<logger> to)
        : hosted{std::move(what)}, settings{std::move(s)}, log{or_stderr(std::move(to), hosted.name(), settings),
                                                               core::parse_severity(settings.log_level)},
          traces{tracer_for(settings)}, steps{settings.deploy_wait}
    {
        hosted.parts().check_complete();
        worker_detail::need_body_store(hosted.name(), settings, hosted.parts().bodies);
        for (auto const& one : hosted.parts().steps) steps.add(one.definition, one.name, one.hosted);
        requests = std::make_unique<skald::entry>(
            std::make_unique<skald::entry::implementation>(hosted.name(), hosted.parts().routes, settings, log,
                                                           traces.get(), front_for(hosted.parts(), settings, log)));
    }

    service hosted;
    config settings;
    core::filtering_logger log;
    std::unique_ptr<tracing::tracer> traces;  // null: none are made
    runtime::registry steps;
    runtime::stop_flag stop;
    std::unique_ptr<skald::entry> requests;
    std::atomic<bool> has_own_server{};  // of the program's, that passes requests to entry()
};

worker::worker(service what, config settings, std::shared_ptr<logger> log)
{
    settings.check();
    implementation_ = std::make_unique<implementation>(std::move(what), std::move(settings), std::move(log));
}

worker::~worker() = default;

int worker::run(std::function<void()> const& on_start)
{
    auto& own = *implementation_;
    auto& hosted = own.hosted.parts();
    worker_detail::need_descriptors(own.settings);
    worker_detail::signals const signals;  // before the first thread, so that every thread inherits the mask
    worker_detail::process process{hosted.name,
                                   own.settings,
                                   own.steps,
                                   hosted.dependencies,
                                   own.requests->parts(),
                                   own.stop,
                                   own.log,
                                   own.traces.get(),
                                   {hosted.bodies, hosted.transport}};
    process.open_health();
    if (!process.prepare_database(hosted.migrations, signals)) return own.settings.migrate_only ? 75 : 0;
    if (own.settings.migrate_only) return 0;
    process.start();
    if (on_start) on_start();
    if (hosted.routes.has_handlers() && own.settings.http_listen.empty() && !own.has_own_server)
        own.log.warning("http.no_listener",
                        {{"error", "this service has routes, and nothing listens for their requests: "
                                   "set SKALD_HTTP_LISTEN, or pass --listen"}});
    while (!own.stop.stopped() && !signals.wait(std::chrono::milliseconds{200})) process.supervise();
    return process.drain(signals) ? 0 : 75;
}

void worker::stop()
{
    implementation_->stop.stop();
}

entry& worker::entry()
{
    implementation_->has_own_server = true;
    return *implementation_->requests;
}

}  // namespace skald
