package invoke

import "strings"

// modulePath is the prefix of the package paths of this library.
const modulePath = "github.com/kopf-runtime/kopf-runtime/"

// trimStack returns the frames of a stack between the panic and the library function that has invoked the handler. If the format is unknown, it
// returns the stack unchanged.
func trimStack(stack []byte) string {
	lines := strings.Split(strings.TrimSpace(string(stack)), "\n")
	first := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") {
			first = i + 2 // the next line is the file of the panic function
		}
	}
	last := first
	for last < len(lines) && !isLibraryFrame(lines[last]) {
		last++
	}
	if last == first {
		return string(stack)
	}
	return strings.Join(lines[first:last], "\n")
}

func isLibraryFrame(line string) bool {
	return strings.HasPrefix(line, modulePath+"pkg/") || strings.HasPrefix(line, modulePath+"internal/")
}
