package validation

import "strings"

// Closest returns the candidate that most resembles a mistyped word, or false if none does. It ignores case, and skips candidates that
// equal the word. Among equally similar candidates, the first wins.
func Closest(word string, candidates []string) (closest string, found bool) {
	lower := strings.ToLower(word)
	// A word may have one typo for every three letters, at least one and at most three.
	limit := min(3, max(1, len(word)/3))
	for _, candidate := range candidates {
		if candidate == word {
			continue
		}
		if strings.EqualFold(candidate, word) {
			return candidate, true
		}
		if d := distance(lower, strings.ToLower(candidate)); d <= limit {
			closest, found, limit = candidate, true, d-1
		}
	}
	return closest, found
}

// distance returns how many insertions, removals, replacements and swaps of adjacent letters turn a into b.
func distance(a, b string) int {
	one, other := []rune(a), []rune(b)
	rows := make([][]int, len(one)+1)
	for i := range rows {
		rows[i] = make([]int, len(other)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(one); i++ {
		for j := 1; j <= len(other); j++ {
			cost := 1
			if one[i-1] == other[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && one[i-1] == other[j-2] && one[i-2] == other[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(one)][len(other)]
}
