#include "http/handler.hpp"

#include <string>

#include "http/problem.hpp"

namespace skald::http {
namespace {

std::string reason_of(std::exception_ptr const& error)
try {
    std::rethrow_exception(error);
}
catch (std::exception const& e) {
    return e.what();
}
catch (...) {
    return "an exception of unknown type";
}

}  // namespace

response internal_error(request const& message, std::exception_ptr error, core::logger& log)
{
    log.error("http.handler_failed",
              {{"method", message.method}, {"path", message.path}, {"reason", reason_of(error)}});
    return problem(500, "The request could not be handled.");
}

}  // namespace skald::http
