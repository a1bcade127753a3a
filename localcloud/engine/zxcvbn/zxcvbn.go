// Package zxcvbn takes the place of the CLI's two estimators of passwords. They read their dictionaries at the start of
// each command, which is half of what starting one costs, and only `config set` asks them: whether the plain value of a
// key like "password" looks like a secret. Here each of its letters counts as random, so such a value does so sooner.
package zxcvbn

// Strength is the part of an estimate that the CLI reads.
type Strength struct {
	Entropy float64 // in bits
}

// PasswordStrength takes each byte for one of 64 letters.
func PasswordStrength(password string, _ []string) Strength {
	return Strength{Entropy: 6 * float64(len(password))}
}
