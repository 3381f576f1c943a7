#include "transports/io_thread.hpp"

#include <system_error>
#include <utility>

namespace skald::transports {
namespace {

constexpr std::size_t stack_bytes = 64 * 1024 * 1024;

}  // namespace

io_thread::io_thread(std::function<void()> body) : body_{std::move(body)}
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    auto const error = pthread_create(&thread_, &attributes, &io_thread::run, this);
    pthread_attr_destroy(&attributes);
    if (error != 0) throw std::system_error{error, std::generic_category(), "no thread for the broker's connection"};
}

io_thread::~io_thread()
{
    pthread_join(thread_, nullptr);
}

void* io_thread::run(void* self)
{
    auto& thread = *static_cast<io_thread*>(self);
    thread.body_();
    thread.ended_.set_value();
    return nullptr;
}

bool io_thread::ends_within(std::chrono::milliseconds timeout) const
{
    return end_.wait_for(timeout) == std::future_status::ready;
}

}  // namespace skald::transports
