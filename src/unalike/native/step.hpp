// What a generated step is made of: products of small matrices whose shapes the compiler knows.
//
// A library's product packs its operands first, which for a minibatch of ten rows takes longer than
// the product. Here the accumulators of a tile stay in registers and operands are read where they lie.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
constexpr int BYTES = 64, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int BYTES = 32, REGISTERS = 16;
#elif defined(__ARM_NEON)
constexpr int BYTES = 16, REGISTERS = 32;
#else
constexpr int BYTES = 16, REGISTERS = 16;
#endif

template <class T, int N>
struct vector_of {
  typedef T type __attribute__((vector_size(N * sizeof(T)), aligned(alignof(T)), may_alias));
};
template <class T, int N>
using V = typename vector_of<T, N>::type;

template <class T, int N>
INLINE V<T, N> load(const T* p) {
  return *(const V<T, N>*)p;
}

// Two vectors of sums in blocks of B numbers as one in blocks of half as many: a block's second half
// is added to its first.
template <class T, int W, int B, int... I>
INLINE V<T, W> halved(V<T, W> x, V<T, W> y, std::integer_sequence<int, I...>) {
  constexpr int H = B / 2;
  return __builtin_shufflevector(x, y, (I / H * B + I % H)...) +
         __builtin_shufflevector(x, y, (I / H * B + I % H + H)...);
}

// The sums of COUNT vectors, each in a block of B numbers; with B = 1, one after the other.
template <class T, int W, int B, int COUNT>
INLINE V<T, W> sums(const V<T, W>* v) {
  if constexpr (B == W) {
    return v[0];
  } else {
    constexpr int H = W / B / 2, FIRST = COUNT < H ? COUNT : H;
    const V<T, W> first = sums<T, W, 2 * B, FIRST>(v);
    V<T, W> second = first;
    if constexpr (COUNT > H) second = sums<T, W, 2 * B, COUNT - H>(v + H);
    return halved<T, W, 2 * B>(first, second, std::make_integer_sequence<int, W>());
  }
}

// The last REST of the W numbers that end there, after zeros.
template <class T, int W, int REST, int... I>
INLINE V<T, W> ending(const T* end, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(V<T, W>{}, load<T, W>(end - W), (I < W - REST ? I : W + I)...);
}

// A compiler would read a number again for every use of it, and reading is what is slow.
template <class T>
INLINE void keep(T& x) {
#if defined(__AVX512F__)
  __asm__("" : "+v"(x));
#else
  (void)x;
#endif
}

// W numbers at distance D; 0 is the same one W times.
template <class T, int W, int D>
INLINE V<T, W> spread(const T* p) {
  if constexpr (D == 1) {
    return load<T, W>(p);
  } else {
    V<T, W> v;
    for (int i = 0; i < W; i++) v[i] = p[(int64_t)i * D];
    return v;
  }
}

// How many rows a tile has: a divisor if there is one, so that no rows are left over.
constexpr int tile_rows(int m, int most) {
  if (m <= most) return m;
  for (int r = most; r >= most / 2; r--)
    if (m % r == 0) return r;
  return most;
}

constexpr int MOST = REGISTERS == 32 ? 12 : 6;

// c[m, n] = (d[m, n] +) alpha sum_k a[m, k] b[k, n] where a row of b is in order: vectors along n.
// What is added may lie elsewhere than the result: a bias, or the weights before the step.
template <class T, int W, int NV, int MR, int K, int AM, int AK, int BK, int CM, int DM, int DN,
          bool ADD>
INLINE void along_n_tile(const T* a, const T* b, T* c, const T* d, T alpha) {
  V<T, W> acc[MR][NV];
  for (int m = 0; m < MR; m++)
    for (int n = 0; n < NV; n++) acc[m][n] = V<T, W>{};
#pragma GCC unroll 1
  for (int k = 0; k < K; k++) {
    V<T, W> row[NV];
    for (int n = 0; n < NV; n++) row[n] = load<T, W>(b + (int64_t)k * BK + n * W);
    for (int m = 0; m < MR; m++) {
      T s = a[m * AM + (int64_t)k * AK];
      for (int n = 0; n < NV; n++) acc[m][n] += s * row[n];
    }
  }
  for (int m = 0; m < MR; m++)
    for (int n = 0; n < NV; n++) {
      T* at = c + (int64_t)m * CM + n * W;
      V<T, W> v = alpha * acc[m][n];
      if constexpr (ADD) v += spread<T, W, DN>(d + (int64_t)m * DM + (int64_t)n * W * DN);
      *(V<T, W>*)at = v;
    }
}

template <class T, int W, int NV, int M, int N, int K, int AM, int AK, int BK, int CM, int DM,
          int DN, bool ADD>
INLINE void along_n(const T* a, const T* b, T* c, const T* d, T alpha) {
  constexpr int MR = tile_rows(M, MOST), LEFT = M % MR, STEP = NV * W, REST = N % STEP;
  for (int n = 0; n + STEP <= N; n += STEP) {
    for (int m = 0; m + MR <= M; m += MR)
      along_n_tile<T, W, NV, MR, K, AM, AK, BK, CM, DM, DN, ADD>(
          a + (int64_t)m * AM, b + n, c + (int64_t)m * CM + n,
          d + (int64_t)m * DM + (int64_t)n * DN, alpha);
    if constexpr (LEFT > 0)
      along_n_tile<T, W, NV, LEFT, K, AM, AK, BK, CM, DM, DN, ADD>(
          a + (int64_t)(M - LEFT) * AM, b + n, c + (int64_t)(M - LEFT) * CM + n,
          d + (int64_t)(M - LEFT) * DM + (int64_t)n * DN, alpha);
  }
  if constexpr (REST > 0) {
    constexpr int W2 = NV > 1 ? W : W / 2;
    along_n<T, W2, 1, M, REST, K, AM, AK, BK, CM, DM, DN, ADD>(
        a, b + N - REST, c + N - REST, d + (int64_t)(N - REST) * DN, alpha);
  }
}

// The same where rows of a and columns of b are in order: vectors along k.
template <class T, int W, int MR, int NR, int K, int AM, int BN, int CM, int DM, int DN, bool ADD>
INLINE void along_k_tile(const T* a, const T* b, T* c, const T* d, T alpha) {
  constexpr int REST = K % W, END = K - REST, ALL = MR * NR;
  V<T, W> acc[ALL];
  for (int i = 0; i < ALL; i++) acc[i] = V<T, W>{};
#pragma GCC unroll 1
  for (int k = 0; k < END; k += W) {
    V<T, W> column[NR];
    for (int n = 0; n < NR; n++) column[n] = load<T, W>(b + (int64_t)n * BN + k);
    for (int m = 0; m < MR; m++) {
      V<T, W> row = load<T, W>(a + (int64_t)m * AM + k);
      if constexpr (sizeof(row) == BYTES) keep(row);
      for (int n = 0; n < NR; n++) acc[m * NR + n] += row * column[n];
    }
  }
  if constexpr (REST > 0 && END > 0) {
    V<T, W> column[NR];
    constexpr std::make_integer_sequence<int, W> lanes;
    for (int n = 0; n < NR; n++) column[n] = ending<T, W, REST>(b + (int64_t)n * BN + K, lanes);
    for (int m = 0; m < MR; m++) {
      V<T, W> row = ending<T, W, REST>(a + (int64_t)m * AM + K, lanes);
      for (int n = 0; n < NR; n++) acc[m * NR + n] += row * column[n];
    }
  }
  T found[(ALL + W - 1) / W * W];
#pragma GCC unroll 32
  for (int i = 0; i < ALL / W; i++)
    *(V<T, W>*)(found + i * W) = alpha * sums<T, W, 1, W>(acc + i * W);
  if constexpr (ALL % W > 0)
    *(V<T, W>*)(found + ALL / W * W) = alpha * sums<T, W, 1, ALL % W>(acc + ALL / W * W);
  for (int m = 0; m < MR; m++)
    for (int n = 0; n < NR; n++) {
      T s = found[m * NR + n];
      if constexpr (END == 0)
        for (int k = 0; k < K; k++) s += alpha * a[(int64_t)m * AM + k] * b[(int64_t)n * BN + k];
      if constexpr (ADD) s += d[(int64_t)m * DM + (int64_t)n * DN];
      c[(int64_t)m * CM + n] = s;
    }
}

template <class T, int NR, int M, int N, int K, int AM, int BN, int CM, int DM, int DN, bool ADD>
INLINE void along_k(const T* a, const T* b, T* c, const T* d, T alpha) {
  constexpr int W = BYTES / sizeof(T), MR = tile_rows(M, MOST), LEFT = M % MR, REST = N % NR;
  for (int n = 0; n + NR <= N; n += NR) {
    for (int m = 0; m + MR <= M; m += MR)
      along_k_tile<T, W, MR, NR, K, AM, BN, CM, DM, DN, ADD>(
          a + (int64_t)m * AM, b + (int64_t)n * BN, c + (int64_t)m * CM + n,
          d + (int64_t)m * DM + (int64_t)n * DN, alpha);
    if constexpr (LEFT > 0)
      along_k_tile<T, W, LEFT, NR, K, AM, BN, CM, DM, DN, ADD>(
          a + (int64_t)(M - LEFT) * AM, b + (int64_t)n * BN, c + (int64_t)(M - LEFT) * CM + n,
          d + (int64_t)(M - LEFT) * DM + (int64_t)n * DN, alpha);
  }
  if constexpr (REST > 0)
    along_k<T, 1, M, REST, K, AM, BN, CM, DM, DN, ADD>(
        a, b + (int64_t)(N - REST) * BN, c + N - REST, d + (int64_t)(N - REST) * DN, alpha);
}

// A matrix copied into rows that are in order.
template <class T, int M, int N, int XM, int XN>
INLINE void packed(const T* x, T* out) {
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) out[m * N + n] = x[(int64_t)m * XM + (int64_t)n * XN];
}

// c = (d +) alpha a @ b for matrices of any strides; d may be c.
template <class T, bool ADD, int M, int N, int K, int AM, int AK, int BK, int BN, int CM, int CN,
          int DM, int DN>
static __attribute__((noinline)) void product(const T* a, const T* b, T* c, const T* d, T alpha) {
  if constexpr (CN != 1 && CM == 1 && N > 1) {  // its transpose, whose rows are in order
    product<T, ADD, N, M, K, BN, BK, AK, AM, CN, CM, DN, DM>(b, a, c, d, alpha);
  } else if constexpr (BN == 1 || N == 1) {
    constexpr int W = BYTES / sizeof(T);
    if constexpr (N == 1 && AK == 1 && BK == 1)
      along_k<T, 1, M, N, K, AM, K, CM, DM, DN, ADD>(a, b, c, d, alpha);
    else
      along_n<T, W, 2, M, N, K, AM, AK, BK, CM, DM, DN, ADD>(a, b, c, d, alpha);
  } else if constexpr (BK == 1 && AK == 1) {
    along_k<T, 2, M, N, K, AM, BN, CM, DM, DN, ADD>(a, b, c, d, alpha);
  } else if constexpr (BK == 1) {
    static thread_local T rows[(int64_t)M * K];
    packed<T, M, K, AM, AK>(a, rows);
    along_k<T, 2, M, N, K, K, BN, CM, DM, DN, ADD>(rows, b, c, d, alpha);
  } else {
    static thread_local T rows[(int64_t)K * N];
    packed<T, K, N, BK, BN>(b, rows);
    along_n<T, BYTES / sizeof(T), 2, M, N, K, AM, AK, N, CM, DM, DN, ADD>(a, rows, c, d, alpha);
  }
}

// A row that will be read soon, from memory that no cache holds.
INLINE void fetched(const void* row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char*)row + at, 0, 2);
}

// How far a client went, while its weights are still in the cache: the squared length of the way
// from begin to end. The way itself is written down, or u times it is added to a sum, which begins
// with the first client.
template <class T>
static double went(const T* end, const T* begin, T* out, int64_t size, const double* u, bool first) {
  constexpr int64_t BLOCK = 1024;  // numbers whose squares are added in their own precision
  const T factor = u ? *u : 1;
  double squares = 0;
  for (int64_t at = 0; at < size; at += BLOCK) {
    const int64_t n = size - at < BLOCK ? size - at : BLOCK;
    const T *x = end + at, *y = begin + at;
    T *to = out + at, sum = 0;
    if (u && !first) {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < n; i++) {
        const T d = x[i] - y[i];
        to[i] += factor * d;
        sum += d * d;
      }
    } else {
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < n; i++) {
        const T d = x[i] - y[i];
        to[i] = factor * d;
        sum += d * d;
      }
    }
    squares += sum;
  }
  return squares;
}

template <class T, int M, int N>
INLINE void log_softmax(const T* x, T* out) {
  for (int m = 0; m < M; m++, x += N, out += N) {
    T most = x[0], sum = 0;
    for (int n = 1; n < N; n++) most = x[n] > most || std::isnan(x[n]) ? x[n] : most;
    for (int n = 0; n < N; n++) sum += std::exp(x[n] - most);
    T log = std::log(sum);
    for (int n = 0; n < N; n++) out[n] = x[n] - most - log;
  }
}

template <class T, int M, int N>
INLINE void log_softmax_backward(const T* g, const T* y, T* out) {
  for (int m = 0; m < M; m++, g += N, y += N, out += N) {
    T sum = 0;
    for (int n = 0; n < N; n++) sum += g[n];
    for (int n = 0; n < N; n++) out[n] = g[n] - std::exp(y[n]) * sum;
  }
}

// Losses of rows; false if a label is no class.
template <class T, int M, int N>
INLINE bool nll(const T* y, const int64_t* label, T* out, int64_t ignored) {
  for (int m = 0; m < M; m++) {
    if (label[m] == ignored) {
      out[m] = 0;
      continue;
    }
    if (label[m] < 0 || label[m] >= N) return false;
    out[m] = -y[m * N + label[m]];
  }
  return true;
}

template <class T, int M, int N>
INLINE bool nll_backward(const T* g, int step, const int64_t* label, T* out, int64_t ignored) {
  std::memset(out, 0, sizeof(T) * M * N);
  for (int m = 0; m < M; m++) {
    if (label[m] == ignored) continue;
    if (label[m] < 0 || label[m] >= N) return false;
    out[m * N + label[m]] = -g[m * step];
  }
  return true;
}
