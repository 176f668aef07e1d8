//go:build !race

package simulation

import "testing"

const raceEnabled = false

func skipSlow(*testing.T) {}
