// Keeps a library that is linked to a newer glibc loadable where there is 2.34 (of RHEL 9 and its
// relatives). The linker sends the calls of functions here whose newer version differs in nothing
// that matters; see CMakeLists.txt.
extern "C" {

double older_hypot(double x, double y);
// Since 2.35 there is one without the wrapper that sets errno.
#if defined(__x86_64__)
__asm__(".symver older_hypot, hypot@GLIBC_2.2.5");
#else
__asm__(".symver older_hypot, hypot@GLIBC_2.17");
#endif

double __wrap_hypot(double x, double y);
double __wrap_hypot(double x, double y) { return older_hypot(x, y); }

}  // extern "C"
