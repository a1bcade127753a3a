module tidemill/worker_image/entry

go 1.24
