// A program that needs no runtime itself, and a library that brings its own.
bool own_runtime_runs();

int main() {
  return own_runtime_runs() ? 0 : 3;
}
