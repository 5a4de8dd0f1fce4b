#include "serve/schema/number_language.h"

#include <algorithm>
#include <array>
#include <compare>
#include <map>
#include <utility>

namespace neuronmm::grammar {
namespace {

// Compares the digits so far with those of a bound, ignoring signs.
struct Comparison {
  bool in_fraction = false;
  // The number of digits of this part so far, at most one more than the bound has.
  int32_t digits = 0;
  int32_t order = 0;  // -1, 0 or 1 if the digits so far are smaller, equal or larger
  auto operator<=>(const Comparison&) const = default;

  void read(const Decimal& bound, int32_t digit) {
    const std::string& other = in_fraction ? bound.fraction : bound.whole;
    const auto length = static_cast<int32_t>(other.size());
    if (digits < length) {
      const int32_t theirs = other[static_cast<size_t>(digits)] - '0';
      if (order == 0) order = digit < theirs ? -1 : digit > theirs ? 1 : 0;
      ++digits;
    } else if (in_fraction) {
      if (order == 0 && digit > 0) order = 1;
    } else {
      digits = length + 1;
    }
    // The order is decided, so the count does not matter. Fewer values of it mean fewer states.
    if (in_fraction && order != 0) digits = 0;
  }
  void read_point(const Decimal& bound) { *this = {true, 0, whole_order(bound)}; }
  int32_t whole_order(const Decimal& bound) const {
    const auto length = static_cast<int32_t>(bound.whole.size());
    return digits < length ? -1 : digits > length ? 1 : order;
  }
  int32_t result(const Decimal& bound) const {
    const int32_t so_far = in_fraction ? order : whole_order(bound);
    if (so_far != 0) return so_far;
    const int32_t read = in_fraction ? digits : 0;
    return read < static_cast<int32_t>(bound.fraction.size()) ? -1 : 0;
  }
};

// The divisor M / 10^d, where M is `multiple` and d is `places`. A number is a multiple of it if
// two things hold. The digits before the point, followed by the first d digits after it, are a
// multiple of M. All other digits are zero.
struct Divisor {
  int64_t multiple = 1;
  int32_t places = 0;
};

struct Remainder {
  int64_t value = 0;
  int32_t places = 0;
  auto operator<=>(const Remainder&) const = default;
};

enum class Phase { kStart, kMinus, kZero, kWhole, kPoint, kFraction };

struct NumberState {
  Phase phase = Phase::kStart;
  bool negative = false;
  // Whether a digit after the point was not 0. Only kept if the limits ask for a fraction.
  bool fractional = false;
  // If digits are counted: those before the point, then those that may still follow it.
  int32_t digits = 0;
  std::array<Comparison, 2> comparisons = {};  // with the minimum and the maximum
  std::vector<Remainder> remainders;
  auto operator<=>(const NumberState&) const = default;
};

constexpr size_t kMaxDivisorDigits = 15;  // so that ten times a remainder fits into an int64_t

Result<Divisor> divisor_of(const Decimal& value) {
  const std::string digits = value.whole + value.fraction;
  if (digits.size() > kMaxDivisorDigits)
    return fail("multiples of a number of more than {} digits are not supported",
                kMaxDivisorDigits);
  return Divisor{std::stoll(digits), static_cast<int32_t>(value.fraction.size())};
}

// The largest numbers of digits before and after the point.
struct DigitLimits {
  int32_t whole = kMostWhole;
  int32_t least_fraction = 1;  // this many can follow any whole number

  // Returns the limits, or nothing if counting takes too many states: each remainder of the
  // divisors is a state, and the count multiplies them.
  static std::optional<DigitLimits> of(const NumberLimits& limits,
                                       const std::vector<Divisor>& divisors) {
    constexpr int64_t kMostRemainders = 128;
    DigitLimits most;
    int64_t remainders = 1;
    for (const Divisor& divisor : divisors) {
      if (divisor.multiple > kMostRemainders / remainders) return std::nullopt;
      remainders *= divisor.multiple;
      most.least_fraction = std::max(most.least_fraction, divisor.places);
    }
    for (const auto& bound : {limits.minimum, limits.maximum}) {
      if (!bound) continue;
      // One digit more than a bound has suffices for a number beside it.
      most.whole = std::max(most.whole, static_cast<int32_t>(bound->value.whole.size()) + 1);
      most.least_fraction =
          std::max(most.least_fraction, static_cast<int32_t>(bound->value.fraction.size()) + 1);
    }
    return most;
  }
  int32_t fraction_after(int32_t whole_digits) const {
    return std::max(kMostSignificant - whole_digits, least_fraction);
  }
};

// Builds the automaton by reading each possible character in every state that is reached.
class NumberAutomaton {
 public:
  NumberAutomaton(const NumberLimits& limits, std::vector<Divisor> divisors, NumberDigits digits,
                  Budget& budget)
      : limits_(limits), divisors_(std::move(divisors)), budget_(budget) {
    if (digits == NumberDigits::kMachine) most_digits_ = DigitLimits::of(limits_, divisors_);
  }

  Result<StringLanguage> run() {
    NumberState start;
    start.remainders.resize(divisors_.size());
    (void)state_number(std::move(start));
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (std::ssize(keys_) > StringLanguage::kMaxStates)
        return fail(
            "its automaton would be too large: use a smaller multipleOf or bounds of fewer digits");
      if (!budget_.spend(kStepsPerState * (4 + std::ssize(divisors_)))) return budget_.error();
      for (const char character : {'-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}) {
        NumberState next = *keys_[i];
        if (!read(next, character)) continue;
        const int32_t target = state_number(std::move(next));
        const auto c = static_cast<char32_t>(character);
        states_[i].edges.push_back({{c, c}, target});
      }
    }
    return StringLanguage(std::move(states_));
  }

 private:
  // The steps of one divisor in one state: twelve characters are read and looked up. Assumed.
  static constexpr int64_t kStepsPerState = 30;
  // The memory of a state as the key of a map, with its edges and its place in the tables. Assumed.
  static constexpr int64_t kStateBytes = 560;

  int32_t state_number(NumberState state) {
    const auto [found, is_new] =
        numbers_.emplace(std::move(state), static_cast<int32_t>(keys_.size()));
    if (is_new) {
      budget_.allocate(kStateBytes +
                       std::ssize(divisors_) * static_cast<int64_t>(sizeof(Remainder)));
      keys_.push_back(&found->first);
      states_.push_back({{}, accepts(found->first)});
    }
    return found->second;
  }

  bool read(NumberState& state, char character) const {
    if (character == '-') {
      state.negative = true;
      return std::exchange(state.phase, Phase::kMinus) == Phase::kStart;
    }
    if (character == '.') return read_point(state);
    return read_digit(state, character - '0');
  }

  bool read_point(NumberState& state) const {
    if (limits_.integer || (state.phase != Phase::kZero && state.phase != Phase::kWhole))
      return false;
    if (most_digits_)
      state.digits = most_digits_->fraction_after(state.phase == Phase::kZero ? 0 : state.digits);
    state.phase = Phase::kPoint;
    if (limits_.minimum) state.comparisons[0].read_point(limits_.minimum->value);
    if (limits_.maximum) state.comparisons[1].read_point(limits_.maximum->value);
    return true;
  }

  bool read_digit(NumberState& state, int32_t digit) const {
    const bool begins = state.phase == Phase::kStart || state.phase == Phase::kMinus;
    const bool in_fraction = state.phase == Phase::kPoint || state.phase == Phase::kFraction;
    if (state.phase == Phase::kZero) return false;
    if (limits_.integer && state.phase == Phase::kMinus && digit == 0) return false;
    if (most_digits_ && !count_digit(state, in_fraction)) return false;
    if (in_fraction) {
      state.fractional |= limits_.fractional && digit != 0;
      state.phase = Phase::kFraction;
    } else {
      state.phase = begins && digit == 0 ? Phase::kZero : Phase::kWhole;
    }
    if (limits_.minimum) state.comparisons[0].read(limits_.minimum->value, digit);
    if (limits_.maximum) state.comparisons[1].read(limits_.maximum->value, digit);
    for (size_t i = 0; i < divisors_.size(); ++i) {
      Remainder& remainder = state.remainders[i];
      if (in_fraction && remainder.places == divisors_[i].places) {
        if (digit != 0) return false;
        continue;
      }
      remainder.value = (remainder.value * 10 + digit) % divisors_[i].multiple;
      if (in_fraction) ++remainder.places;
    }
    return true;
  }

  bool count_digit(NumberState& state, bool in_fraction) const {
    state.digits += in_fraction ? -1 : 1;
    return in_fraction ? state.digits >= 0 : state.digits <= most_digits_->whole;
  }

  bool accepts(const NumberState& state) const {
    if (state.phase != Phase::kZero && state.phase != Phase::kWhole &&
        state.phase != Phase::kFraction)
      return false;
    if (limits_.fractional && !state.fractional) return false;
    for (size_t i = 0; i < divisors_.size(); ++i) {
      int64_t value = state.remainders[i].value;
      for (int32_t place = state.remainders[i].places; place < divisors_[i].places; ++place)
        value = value * 10 % divisors_[i].multiple;
      if (value != 0) return false;
    }
    return within(state, limits_.minimum, 0, -1) && within(state, limits_.maximum, 1, 1);
  }

  // Returns whether the number is within the bound. `outside` is the order (-1 or 1) of numbers
  // beyond the bound.
  static bool within(const NumberState& state, const std::optional<NumberBound>& bound,
                     size_t which, int32_t outside) {
    if (!bound) return true;
    const int32_t order = compare(state, bound->value, state.comparisons[which]);
    return order == 0 ? !bound->exclusive : order != outside;
  }

  static int32_t compare(const NumberState& state, const Decimal& bound,
                         const Comparison& comparison) {
    const int32_t magnitude = comparison.result(bound);
    if (bound.is_zero()) return state.negative ? -magnitude : magnitude;
    if (state.negative != bound.negative) return state.negative ? -1 : 1;
    return state.negative ? -magnitude : magnitude;
  }

  const NumberLimits& limits_;
  const std::vector<Divisor> divisors_;
  std::optional<DigitLimits> most_digits_;  // nothing if digits are not counted
  Budget& budget_;
  std::map<NumberState, int32_t> numbers_;
  std::vector<const NumberState*> keys_;  // the keys of numbers_ by state number
  std::vector<StringLanguage::State> states_;
};

}  // namespace

Result<StringLanguage> number_language(const NumberLimits& limits, Budget& budget,
                                       NumberDigits digits) {
  std::vector<Divisor> divisors;
  for (const Decimal& multiple : limits.multiples) {
    NMM_ASSIGN(const Divisor divisor, divisor_of(multiple));
    divisors.push_back(divisor);
  }
  Budget::Scratch scratch(budget);
  auto language = NumberAutomaton(limits, std::move(divisors), digits, budget).run();
  if (language.ok()) scratch.keep(language->bytes());
  return language;
}

}  // namespace neuronmm::grammar
