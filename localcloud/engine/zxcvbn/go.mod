module tidemill.dev/zxcvbn

go 1.25
