#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>

namespace fsdp {

// Thrown if the caller asked to stop.
struct Interrupted : std::exception {};

// A request that failed.
class HttpError : public std::runtime_error {
 public:
  HttpError(std::string problem, int status, bool is_temporary, double retry_after_s = 0)
      : std::runtime_error(std::move(problem)),
        status(status),
        is_temporary(is_temporary),
        retry_after_s(retry_after_s) {}

  const int status;         // of the answer; 0: no answer
  const bool is_temporary;  // the same request may succeed later
  const double retry_after_s;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  // Empty if the header is missing.
  std::string_view header(std::string_view name) const;
};

// A server for files. Its token is sent to no other server.
struct Endpoint {
  std::string url;    // without a slash at its end
  std::string token;  // empty: none
  double patience_s;  // a request fails after this time without a byte
};

// Sends the requests of one thread and keeps connections between them.
class HttpClient {
 public:
  HttpClient(const Endpoint& endpoint, std::stop_token stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  using Body = std::function<void(const HttpResponse&, std::string_view bytes)>;

  // Gets `url` from `first_byte` on and follows redirects. `body` receives the bytes of an answer
  // with status 200 or 206 as they arrive, and may throw. Throws HttpError, also for any other
  // status. Throws Interrupted within 0.1 s after a stop request.
  HttpResponse get(const std::string& url, int64_t first_byte, const Body& body);

  // Returns a whole answer. Throws HttpError if it has more than `most_bytes`.
  std::string get_text(const std::string& url, size_t most_bytes, HttpResponse& response);

  // Waits this many seconds. Throws Interrupted.
  void wait(double seconds) const;

 private:
  struct Connection;
  // Returns one answer of any status. `redirect` is set to the redirect's target, or to empty text.
  HttpResponse perform(const std::string& url, int64_t first_byte, const Body& body,
                       std::string& redirect);

  const Endpoint& endpoint_;
  std::stop_token stop_;
  std::unique_ptr<Connection> connection_;
};

// True if both URLs have the same scheme, host and port.
bool is_same_origin(const std::string& url, const std::string& other);

// Encodes `text` for a URL. All but unreserved characters and those in `kept` become %XX.
std::string percent_encoded(std::string_view text, std::string_view kept);

}  // namespace fsdp
