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

// Whoever asked for it wants no more of it.
struct Interrupted : std::exception {};

// What went wrong with a request.
class HttpError : public std::runtime_error {
 public:
  HttpError(std::string problem, int status, bool is_temporary, double retry_after_s = 0)
      : std::runtime_error(std::move(problem)),
        status(status),
        is_temporary(is_temporary),
        retry_after_s(retry_after_s) {}

  const int status;         // of the answer; 0: there was none
  const bool is_temporary;  // it may pass when the same is asked again
  const double retry_after_s;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case

  // Empty when there is none.
  std::string_view header(std::string_view name) const;
};

// A server that is asked for files, with a token that no other server is told.
struct Endpoint {
  std::string url;    // without a slash at its end
  std::string token;  // empty: none
  double patience_s;  // without a byte, before a request has failed
};

// Requests of one thread; connections are kept between them.
class HttpClient {
 public:
  HttpClient(const Endpoint& endpoint, std::stop_token stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  using Body = std::function<void(const HttpResponse&, std::string_view bytes)>;

  // Gets `url`, from `first_byte` on, and follows redirects; `body` takes the bytes of an answer
  // with status 200 or 206 as they come, and may throw. Throws HttpError, also for any other
  // status, and Interrupted within 0.1 s.
  HttpResponse get(const std::string& url, int64_t first_byte, const Body& body);

  // A whole answer, of at most `most_bytes`.
  std::string get_text(const std::string& url, size_t most_bytes, HttpResponse& response);

  // Returns after so many seconds. Throws Interrupted.
  void wait(double seconds) const;

 private:
  struct Connection;
  // One answer, whatever it is; `redirect` is where it leads, empty: nowhere.
  HttpResponse perform(const std::string& url, int64_t first_byte, const Body& body,
                       std::string& redirect);

  const Endpoint& endpoint_;
  std::stop_token stop_;
  std::unique_ptr<Connection> connection_;
};

// Whether both have the same scheme, host and port.
bool is_same_origin(const std::string& url, const std::string& other);

// `text` in a URL, with what stands for itself nowhere as %XX; `kept` stay.
std::string percent_encoded(std::string_view text, std::string_view kept);

}  // namespace fsdp
