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

template <class T, int N, int... I>
INLINE V<T, N / 2> folded(V<T, N> v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, I...) + __builtin_shufflevector(v, v, (I + N / 2)...);
}

// The sum of v and of a[i] b[i] for i below REST, which is less than N.
template <class T, int N, int REST>
INLINE T total(V<T, N> v, const T* a, const T* b) {
  if constexpr (N == 1) {
    return v[0];
  } else if constexpr (N == 2) {
    return v[0] + v[1] + (REST ? a[0] * b[0] : T(0));
  } else {
    constexpr int H = N / 2;
    V<T, H> half = folded<T, N>(v, std::make_integer_sequence<int, H>());
    if constexpr (REST >= H) half += load<T, H>(a) * load<T, H>(b);
    constexpr int DONE = REST >= H ? H : 0;
    return total<T, H, REST - DONE>(half, a + DONE, b + DONE);
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

// c[m, n] (+)= alpha sum_k a[m, k] b[k, n] where a row of b is in order: vectors along n.
template <class T, int W, int NV, int MR, int K, int AM, int AK, int BK, int CM, bool ADD>
INLINE void along_n_tile(const T* a, const T* b, T* c, T alpha) {
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
      if (ADD) v += load<T, W>(at);
      *(V<T, W>*)at = v;
    }
}

template <class T, int W, int NV, int M, int N, int K, int AM, int AK, int BK, int CM, bool ADD>
INLINE void along_n(const T* a, const T* b, T* c, T alpha) {
  constexpr int MR = tile_rows(M, MOST), LEFT = M % MR, STEP = NV * W, REST = N % STEP;
  for (int n = 0; n + STEP <= N; n += STEP) {
    for (int m = 0; m + MR <= M; m += MR)
      along_n_tile<T, W, NV, MR, K, AM, AK, BK, CM, ADD>(
          a + (int64_t)m * AM, b + n, c + (int64_t)m * CM + n, alpha);
    if constexpr (LEFT > 0)
      along_n_tile<T, W, NV, LEFT, K, AM, AK, BK, CM, ADD>(
          a + (int64_t)(M - LEFT) * AM, b + n, c + (int64_t)(M - LEFT) * CM + n, alpha);
  }
  if constexpr (REST > 0) {
    constexpr int W2 = NV > 1 ? W : W / 2;
    along_n<T, W2, 1, M, REST, K, AM, AK, BK, CM, ADD>(a, b + N - REST, c + N - REST, alpha);
  }
}

// The same where rows of a and columns of b are in order: vectors along k.
template <class T, int W, int MR, int NR, int K, int AM, int BN, int CM, bool ADD>
INLINE void along_k_tile(const T* a, const T* b, T* c, T alpha) {
  constexpr int REST = K % W, END = K - REST;
  V<T, W> acc[MR][NR];
  for (int m = 0; m < MR; m++)
    for (int n = 0; n < NR; n++) acc[m][n] = V<T, W>{};
#pragma GCC unroll 1
  for (int k = 0; k < END; k += W) {
    V<T, W> column[NR];
    for (int n = 0; n < NR; n++) column[n] = load<T, W>(b + (int64_t)n * BN + k);
    for (int m = 0; m < MR; m++) {
      V<T, W> row = load<T, W>(a + (int64_t)m * AM + k);
      for (int n = 0; n < NR; n++) acc[m][n] += row * column[n];
    }
  }
  for (int m = 0; m < MR; m++)
    for (int n = 0; n < NR; n++) {
      const T *x = a + (int64_t)m * AM + END, *y = b + (int64_t)n * BN + END;
      T s = alpha * total<T, W, REST>(acc[m][n], x, y), *at = c + (int64_t)m * CM + n;
      *at = ADD ? *at + s : s;
    }
}

template <class T, int NR, int M, int N, int K, int AM, int BN, int CM, bool ADD>
INLINE void along_k(const T* a, const T* b, T* c, T alpha) {
  constexpr int W = BYTES / sizeof(T), MR = tile_rows(M, MOST), LEFT = M % MR, REST = N % NR;
  for (int n = 0; n + NR <= N; n += NR) {
    for (int m = 0; m + MR <= M; m += MR)
      along_k_tile<T, W, MR, NR, K, AM, BN, CM, ADD>(
          a + (int64_t)m * AM, b + (int64_t)n * BN, c + (int64_t)m * CM + n, alpha);
    if constexpr (LEFT > 0)
      along_k_tile<T, W, LEFT, NR, K, AM, BN, CM, ADD>(
          a + (int64_t)(M - LEFT) * AM, b + (int64_t)n * BN, c + (int64_t)(M - LEFT) * CM + n,
          alpha);
  }
  if constexpr (REST > 0)
    along_k<T, 1, M, REST, K, AM, BN, CM, ADD>(
        a, b + (int64_t)(N - REST) * BN, c + N - REST, alpha);
}

// A matrix copied into rows that are in order.
template <class T, int M, int N, int XM, int XN>
INLINE void packed(const T* x, T* out) {
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) out[m * N + n] = x[(int64_t)m * XM + (int64_t)n * XN];
}

// c (+)= alpha a @ b for matrices of any strides.
template <class T, bool ADD, int M, int N, int K, int AM, int AK, int BK, int BN, int CM, int CN>
static __attribute__((noinline)) void product(const T* a, const T* b, T* c, T alpha) {
  if constexpr (CN != 1 && CM == 1 && N > 1) {  // its transpose, whose rows are in order
    product<T, ADD, N, M, K, BN, BK, AK, AM, CN, CM>(b, a, c, alpha);
  } else if constexpr (BN == 1 || N == 1) {
    constexpr int W = BYTES / sizeof(T);
    if constexpr (N == 1 && AK == 1 && BK == 1)
      along_k<T, 1, M, N, K, AM, K, CM, ADD>(a, b, c, alpha);
    else
      along_n<T, W, 2, M, N, K, AM, AK, BK, CM, ADD>(a, b, c, alpha);
  } else if constexpr (BK == 1 && AK == 1) {
    along_k<T, 2, M, N, K, AM, BN, CM, ADD>(a, b, c, alpha);
  } else if constexpr (BK == 1) {
    static thread_local T rows[(int64_t)M * K];
    packed<T, M, K, AM, AK>(a, rows);
    along_k<T, 2, M, N, K, K, BN, CM, ADD>(rows, b, c, alpha);
  } else {
    static thread_local T rows[(int64_t)K * N];
    packed<T, K, N, BK, BN>(b, rows);
    along_n<T, BYTES / sizeof(T), 2, M, N, K, AM, AK, N, CM, ADD>(a, rows, c, alpha);
  }
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
